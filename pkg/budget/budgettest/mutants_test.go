package budgettest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// Each mutant keeps an honest event log of what it did; only its arithmetic is wrong. It has to be
// caught by the rule that it breaks, whatever else it breaks.
func TestCheckCatchesMutants(t *testing.T) {
	const seeds = 30
	for _, c := range []struct {
		m     mutation
		rules []string
	}{
		{forgets, []string{"law", "reserve"}},
		{oneTooMany, []string{"law", "reserve"}},
		{returnsTwice, []string{"return"}},
		{returnsTwiceSilently, []string{"law", "payment"}},
		{returnsAfresh, []string{"payment"}},
		{depositsTwice, []string{"law", "payment"}},
		{undated, []string{"law", "payment"}},
		{evictsBusy, []string{"law", "reserve"}},
		{slidingCount, []string{"law"}},
	} {
		t.Run(string(c.m), func(t *testing.T) {
			caught := map[string]int{}
			example := map[string]*Breach{}
			for seed := range uint64(seeds) {
				s, err := simulate(seed, func(w World) budget.Budget { return newMutant(w, c.m) })
				if err != nil {
					t.Fatal(err)
				}
				found, err := breaches(&s.log, s.settingsOf)
				if err != nil {
					t.Fatal(err)
				}
				inThisLife := map[string]int{}
				for _, b := range found {
					inThisLife[b.Rule] = 1
					example[b.Rule] = b
				}
				for rule := range inThisLife {
					caught[rule]++
				}
			}
			for _, rule := range c.rules {
				if caught[rule] == 0 {
					t.Errorf("the rule %q does not catch it in %d lives", rule, seeds)
				}
				t.Logf("%s: in %d of %d lives, last: %v", rule, caught[rule], seeds, example[rule])
			}
		})
	}
}

// The same code without a mutation obeys the law, so it is the mutation that is caught above.
func TestCheckPassesTheModel(t *testing.T) {
	for seed := range uint64(100) {
		if _, err := Simulate(seed, func(w World) budget.Budget { return newMutant(w, none) }); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

type mutation string

const (
	none                 mutation = "none"
	forgets              mutation = "a reserve that begins anew at every multiple of the interval"
	oneTooMany           mutation = "a reserve that lets one too many through"
	returnsTwice         mutation = "a second return counts"
	returnsTwiceSilently mutation = "a second return counts and is not in the log"
	returnsAfresh        mutation = "a returned token begins a new life"
	depositsTwice        mutation = "deposits count twice"
	undated              mutation = "tokens that never expire"
	evictsBusy           mutation = "a busy account is evicted and gets a second reserve"
	slidingCount         mutation = "a naive sliding count in tenths of the interval"
)

// mutant is the payment law in the most direct form, with exact dates, and one mutation.
type mutant struct {
	World
	m        mutation
	log      *budget.EventLog
	accounts map[string]*mutantAccount
	order    []string
	now      int64
	ids      uint64
}

func newMutant(w World, m mutation) *mutant {
	return &mutant{World: w, m: m, log: budget.NewEventLog(w.Log, "p", nil), accounts: map[string]*mutantAccount{}}
}

func (b *mutant) Account(upstream string) budget.Account {
	if b.accounts[upstream] == nil {
		if b.m == evictsBusy && len(b.order) >= b.MaxUpstreams {
			delete(b.accounts, b.order[0])
			b.order = b.order[1:]
		}
		b.order = append(b.order, upstream)
		b.accounts[upstream] = &mutantAccount{b: b, name: upstream, s: b.Settings(upstream), now: b.now, back: map[uint64]bool{}}
	}
	return b.accounts[upstream]
}

func (b *mutant) List() []budget.State { return nil }
func (b *mutant) Close() error         { return nil }

type dated struct{ at, amount int64 }

type mutantAccount struct {
	b        *mutant
	name     string
	s        budget.Settings
	now      int64
	deposits []dated
	reserve  []dated
	firsts   []dated // slidingCount
	retries  []dated // slidingCount
	back     map[uint64]bool
}

func (a *mutantAccount) tick() {
	a.now = max(a.now, a.b.Clock())
	a.b.now = max(a.b.now, a.now)
	dead := func(d dated) bool { return d.amount == 0 || d.at <= a.now-int64(a.s.Interval) }
	if a.b.m != undated {
		a.deposits = slices.DeleteFunc(a.deposits, dead)
	}
	if a.b.m == forgets {
		dead = func(d dated) bool { return d.at/int64(a.s.Interval) < a.now/int64(a.s.Interval) }
	}
	a.reserve = slices.DeleteFunc(a.reserve, dead)
}

func (a *mutantAccount) write(e budget.Event) {
	e.Mono, e.Account = a.now, a.name
	if err := a.b.log.Write(e); err != nil {
		panic(err)
	}
}

func (a *mutantAccount) Deposit(n int) {
	a.tick()
	milli := int64(n * a.s.Ratio)
	a.write(budget.Event{Kind: budget.KindDeposit, Firsts: n, Milli: milli})
	if a.b.m == depositsTwice {
		milli *= 2
	}
	a.deposits = append(a.deposits, dated{a.now, milli})
	a.firsts = append(a.firsts, dated{a.now, milli})
}

func (a *mutantAccount) TryWithdraw(context.Context) (budget.Grant, bool) {
	a.tick()
	limit := a.s.Reserve
	if a.b.m == oneTooMany {
		limit++
	}
	source, at := budget.SourceEarned, a.now
	switch {
	case a.b.m == slidingCount:
		// The usual way: sums over the last ten tenths, the current one included.
		tenth := int64(a.s.Interval) / 10
		if 1000+a.last(a.retries, tenth) > a.last(a.firsts, tenth)+int64(limit)*1000 {
			return budget.Grant{}, false
		}
		a.retries = append(a.retries, dated{a.now, 1000})
	case sum(a.deposits) >= 1000:
		at = a.pay()
	case len(a.reserve) < limit:
		source = budget.SourceReserve
		a.reserve = append(a.reserve, dated{a.now, 1})
	default:
		return budget.Grant{}, false
	}
	a.b.ids++
	a.write(budget.Event{Kind: budget.KindGrant, Milli: 1000, Source: source, Grant: fmt.Sprint(a.b.ids)})
	return budget.Grant{Issuer: a, ID: a.b.ids, Source: source, Bucket: at}, true
}

func (a *mutantAccount) pay() int64 {
	due, at := int64(1000), int64(-1)
	for i := range a.deposits {
		paid := min(a.deposits[i].amount, due)
		if a.deposits[i].amount -= paid; paid > 0 && at < 0 {
			at = a.deposits[i].at
		}
		due -= paid
	}
	return at
}

func (a *mutantAccount) last(of []dated, tenth int64) (total int64) {
	for _, d := range of {
		if d.at/tenth > a.now/tenth-10 {
			total += d.amount
		}
	}
	return total
}

func (a *mutantAccount) Return(g budget.Grant) {
	a.tick()
	twice := a.back[g.ID] && a.b.m != returnsTwice && a.b.m != returnsTwiceSilently
	if g.Issuer != any(a) || twice || g.Bucket <= a.now-int64(a.s.Interval) || a.b.m == slidingCount {
		return
	}
	if !a.back[g.ID] || a.b.m == returnsTwice {
		a.write(budget.Event{Kind: budget.KindReturn, Milli: 1000, Source: g.Source, Grant: fmt.Sprint(g.ID)})
	}
	a.back[g.ID] = true
	at := g.Bucket
	if a.b.m == returnsAfresh {
		at = a.now
	}
	if g.Source == budget.SourceEarned {
		a.deposits = append(a.deposits, dated{at, 1000})
		slices.SortStableFunc(a.deposits, func(x, y dated) int { return cmp.Compare(x.at, y.at) })
	} else if i := slices.IndexFunc(a.reserve, func(d dated) bool { return d.at == g.Bucket }); i >= 0 {
		a.reserve = slices.Delete(a.reserve, i, i+1)
	}
}

func (a *mutantAccount) Empty() bool         { return false }
func (a *mutantAccount) State() budget.State { return budget.State{Upstream: a.name} }

func sum(of []dated) (total int64) {
	for _, d := range of {
		total += d.amount
	}
	return total
}
