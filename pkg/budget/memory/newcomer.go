package memory

import (
	"context"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// newcomer is a handle that looks its account up anew at every call: for upstreams that share, and
// for calls on an account that was evicted.
type newcomer struct {
	budget   *Budget
	upstream string
}

// lock returns the account that stands for the upstream, locked; nil when the budget is closed.
func (n newcomer) lock() *account {
	for {
		a := n.budget.resolve(n.upstream)
		if a == nil || a.lock() {
			return a
		}
	}
}

func (n newcomer) Deposit(k int) {
	if k <= 0 {
		return
	}
	s := n.budget.settings(n.upstream)
	a := n.lock()
	if a == nil {
		return
	}
	defer a.mu.Unlock()
	var milli int64
	if a == n.budget.shared {
		milli = a.ledger.DepositAs(a.clock(), k, s)
	} else {
		milli = a.ledger.Deposit(a.clock(), k)
	}
	if a.log != nil {
		a.logDeposit(k, milli)
	}
}

func (n newcomer) TryWithdraw(context.Context) (budget.Grant, bool) {
	s := n.budget.settings(n.upstream)
	a := n.lock()
	if a == nil {
		return budget.Grant{}, false
	}
	defer a.mu.Unlock()
	if a == n.budget.shared && (s.IsNever() || s.IsUnlimited()) {
		return budget.Grant{}, false // what is there was earned by others
	}
	g, ok := a.ledger.Withdraw(a.clock())
	if ok && a.log != nil {
		return a.logGrant(g)
	}
	return g, ok
}

func (n newcomer) Return(g budget.Grant) {
	if a := n.budget.resolve(n.upstream); a != nil {
		a.Return(g)
	}
}

func (n newcomer) Empty() bool {
	s := n.budget.settings(n.upstream)
	a := n.lock()
	if a == nil {
		return true
	}
	defer a.mu.Unlock()
	return a == n.budget.shared && (s.IsNever() || s.IsUnlimited()) || a.ledger.Empty(a.clock())
}

func (n newcomer) State() budget.State {
	a := n.lock()
	if a == nil {
		return budget.State{Upstream: n.upstream, Settings: budget.Never}
	}
	defer a.mu.Unlock()
	s := a.ledger.State(a.clock())
	s.Upstream = a.upstream
	return s
}
