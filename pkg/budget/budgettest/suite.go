// Package budgettest is what every budget backend has to pass: the contract as a test suite (Run),
// the checker of the payment law for event logs (Check), and random lives on a virtual clock
// (Simulate).
package budgettest

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// A Factory opens a new, empty budget in which every upstream has the given settings.
type Factory func(t *testing.T, settings budget.Settings) budget.Budget

// Options of Run.
type Options struct {
	// Virtual runs each case in a testing/synctest bubble, for backends whose only clock is package
	// time's. Otherwise the cases run in real time, side by side, in some seconds.
	Virtual bool
	// MaxUpstreams is how many accounts the factory's budgets have beside the shared one; 0 if they
	// are not bounded, and then the cases about it are not run.
	MaxUpstreams int
}

// Run is the contract of package budget, one subtest per promise.
func Run(t *testing.T, open Factory, o Options) {
	cases := append(lawCases, contractCases...)
	if o.MaxUpstreams > 0 {
		cases = append(cases, boundCases...)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			body := func(t *testing.T) { c.run(&subject{T: t, open: open, max: o.MaxUpstreams}) }
			if o.Virtual {
				synctest.Test(t, body)
				return
			}
			t.Parallel()
			body(t)
		})
	}
}

// interval is the shortest one; what a case does between two sleeps takes far less than half of it.
const interval = budget.MinInterval

// over is how long after a deposit or a withdrawal nothing of it is left: the interval, the time
// bucket, and what a backend's clock may be off.
const over = interval + interval/budget.Buckets + interval/20

type suiteCase struct {
	name string
	run  func(*subject)
}

// subject is what a case works on.
type subject struct {
	*testing.T
	open Factory
	max  int
}

func (s *subject) budget(settings budget.Settings) budget.Budget {
	b := s.open(s.T, settings)
	s.Cleanup(func() {
		if err := b.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
	return b
}

func (s *subject) account(settings budget.Settings) budget.Account {
	return s.budget(settings).Account("upstream")
}

// withdraw takes tokens until one is refused, at most limit, and returns them.
func (s *subject) withdraw(a budget.Account, limit int) (grants []budget.Grant) {
	for len(grants) < limit {
		g, ok := a.TryWithdraw(s.ctx())
		if !ok {
			return grants
		}
		grants = append(grants, g)
	}
	return grants
}

// ctx is not T.Context, which is done when cleanups run.
func (s *subject) ctx() context.Context { return context.Background() }

func (s *subject) wantTokens(a budget.Account, want int, why string) []budget.Grant {
	s.Helper()
	grants := s.withdraw(a, want+1)
	if len(grants) != want {
		s.Fatalf("%s: granted %d (or more), want %d", why, len(grants), want)
	}
	return grants
}

func (s *subject) wantSource(grants []budget.Grant, want budget.Source) {
	s.Helper()
	for i, g := range grants {
		if g.Source != want {
			s.Fatalf("grant %d was paid by %v, want %v", i, g.Source, want)
		}
	}
}

// wantHolds compares the balance, the rest of State aside.
func (s *subject) wantHolds(a budget.Account, milli, reserve int64, why string) {
	s.Helper()
	st := a.State()
	if st.EarnedMilli != milli || st.ReserveLeft != reserve {
		s.Fatalf("%s: holds %d milli-tokens and a reserve of %d, want %d and %d", why, st.EarnedMilli, st.ReserveLeft, milli, reserve)
	}
}
