package decisionapi

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// returns counts what comes back.
type returns struct {
	budget.Account
	grants []budget.Grant
}

func (r *returns) Return(g budget.Grant) { r.grants = append(r.grants, g) }

func TestGrants(t *testing.T) {
	g, account := NewGrants(), new(returns)
	g.giveBack(strings.Repeat("0", 32)) // none was ever given
	first := g.keep(account, budget.Grant{ID: 1})
	second := g.keep(account, budget.Grant{ID: 2})
	for _, name := range []string{"", "x", first[:31], first + "00", strings.Repeat("0", 32), first[:16] + second[16:], strings.Repeat("f", 32), first, first} {
		g.giveBack(name)
	}
	if len(account.grants) != 1 || account.grants[0].ID != 1 {
		t.Errorf("returned %+v, want the first, once", account.grants)
	}
	// One that was overtaken counts as spent.
	for range maxGrants {
		g.keep(account, budget.Grant{ID: 3})
	}
	g.giveBack(second)
	if len(account.grants) != 1 {
		t.Errorf("returned %+v", account.grants)
	}
}
