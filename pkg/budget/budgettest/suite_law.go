package budgettest

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// lawCases are about what is paid, by what, and for how long.
var lawCases = []suiteCase{
	{"1000 simultaneous withdrawals get the reserve exactly", func(s *subject) {
		set, err := budget.NewSettings(0, 20, 10*time.Second)
		if err != nil {
			s.Fatal(err)
		}
		a := s.account(set)
		s.simultaneously(1000, func(int) { a.Deposit(1) })
		if granted := s.simultaneousGrants(a, 1000); granted != 200 {
			s.Fatalf("granted %d, want 200", granted)
		}
	}},
	{"simultaneous deposits and withdrawals lose and invent nothing", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 200, Interval: time.Minute})
		var granted atomic.Int64
		s.simultaneously(1000, func(i int) {
			if i%2 == 0 {
				a.Deposit(10)
			} else if _, ok := a.TryWithdraw(s.ctx()); ok {
				granted.Add(1)
			}
		})
		if total := granted.Load() + int64(len(s.withdraw(a, 2000))); total != 1000 {
			s.Fatalf("5000 first attempts at 0.2 paid for %d retries, want 1000", total)
		}
	}},
	{"an idle upstream's first failures are paid by the reserve", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 200, Reserve: 7, Interval: interval})
		s.wantSource(s.wantTokens(a, 7, "no deposit yet"), budget.SourceReserve)
	}},
	{"drained, it pays again after 10,000 deposits", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 200, Reserve: 5, Interval: time.Minute})
		s.wantTokens(a, 5, "drained")
		for range 10_000 {
			a.Deposit(1)
		}
		s.wantSource(s.wantTokens(a, 2000, "10,000 deposits at 0.2"), budget.SourceEarned)
	}},
	{"deposits are scaled exactly", func(s *subject) {
		for _, c := range []struct{ ratio, firsts, want int }{
			{0, 100_000, 0}, {1, 999, 0}, {1, 1000, 1}, {200, 4, 0}, {200, 5, 1}, {333, 3, 0}, {333, 4, 1},
			{600, 10, 6}, {600, 1000, 600}, {999, 1000, 999}, {1000, 1000, 1000},
		} {
			a := s.account(budget.Settings{Ratio: c.ratio, Interval: time.Minute})
			a.Deposit(c.firsts)
			if got := len(s.withdraw(a, c.want+1)); got != c.want {
				s.Errorf("%d first attempts at %d milli-tokens paid for %d retries, want %d", c.firsts, c.ratio, got, c.want)
			}
		}
	}},
	{"no token is paid partly by deposits and partly by the reserve", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 1, Reserve: 1, Interval: time.Minute})
		a.Deposit(999)
		s.wantSource(s.wantTokens(a, 1, "999 milli-tokens and a reserve of one"), budget.SourceReserve)
		s.wantHolds(a, 999, 0, "after the reserve was spent")
		a.Deposit(1)
		s.wantSource(s.wantTokens(a, 1, "one milli-token more"), budget.SourceEarned)
	}},
	{"a refused withdrawal changes nothing", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 500, Interval: time.Minute})
		a.Deposit(1)
		for range 100 {
			s.wantTokens(a, 0, "half a token")
		}
		s.wantHolds(a, 500, 0, "after 100 refusals")
		a.Deposit(1)
		s.wantTokens(a, 1, "two halves")
	}},
	{"deposits die after an interval", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 1000, Interval: interval})
		a.Deposit(3)
		s.withdraw(a, 1)
		s.wantHolds(a, 2000, 0, "two of three left")
		time.Sleep(over)
		s.wantHolds(a, 0, 0, "after an interval")
		s.wantTokens(a, 0, "after an interval")
	}},
	{"the oldest deposits are spent first", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 1000, Interval: interval})
		a.Deposit(1)
		time.Sleep(interval / 2)
		a.Deposit(1)
		if _, ok := a.TryWithdraw(s.ctx()); !ok {
			s.Fatal("refused, with two tokens there")
		}
		time.Sleep(over - interval/2) // the first deposit would be dead, the second lives
		s.wantTokens(a, 1, "the younger deposit")
	}},
	{"the reserve comes back after an interval, and not before", func(s *subject) {
		a := s.account(budget.Settings{Reserve: 4, Interval: interval})
		s.wantTokens(a, 4, "the first interval")
		time.Sleep(interval / 2)
		s.wantTokens(a, 0, "half an interval later")
		time.Sleep(over - interval/2)
		s.wantTokens(a, 4, "the next interval")
	}},
	{"Never pays nothing and is always empty", func(s *subject) {
		a := s.account(budget.Never)
		if !a.Empty() {
			s.Error("not empty before the first withdrawal")
		}
		a.Deposit(1_000_000)
		s.wantTokens(a, 0, "Never")
	}},
	{"Unlimited pays everything and is never empty", func(s *subject) {
		a := s.account(budget.Unlimited)
		g := s.withdraw(a, 5000)
		if len(g) != 5000 || a.Empty() {
			s.Fatalf("granted %d of 5000, empty: %v", len(g), a.Empty())
		}
		s.wantSource(g, budget.SourceUnlimited)
		a.Return(g[0])
		a.Deposit(1)
	}},
	{"invalid settings pay nothing", func(s *subject) {
		for _, set := range []budget.Settings{{}, {Ratio: 1001, Reserve: 1, Interval: interval}, {Reserve: -1, Interval: interval}, {Ratio: 1000, Reserve: 1}} {
			a := s.account(set)
			a.Deposit(10)
			s.wantTokens(a, 0, "invalid settings")
		}
	}},
	{"deposits of no first attempts, or of very many", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 1000, Interval: time.Minute})
		a.Deposit(0)
		a.Deposit(-5)
		a.Deposit(math.MinInt)
		s.wantTokens(a, 0, "nothing was deposited")
		for range 100 {
			a.Deposit(math.MaxInt)
		}
		if g := s.withdraw(a, 1000); len(g) != 1000 {
			s.Errorf("granted %d of 1000", len(g))
		}
	}},
	{"each upstream has an account of its own", func(s *subject) {
		b := s.budget(budget.Settings{Ratio: 1000, Reserve: 2, Interval: time.Minute})
		s.wantTokens(b.Account("a"), 2, "a")
		b.Account("a").Deposit(3)
		s.wantTokens(b.Account("b"), 2, "b")
		s.wantTokens(b.Account("a"), 3, "a, by another handle")
	}},
}

// simultaneously runs n goroutines that begin together, and waits for them.
func (s *subject) simultaneously(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-begin
			f(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

func (s *subject) simultaneousGrants(a budget.Account, n int) int64 {
	var granted atomic.Int64
	s.simultaneously(n, func(int) {
		if _, ok := a.TryWithdraw(s.ctx()); ok {
			granted.Add(1)
		}
	})
	return granted.Load()
}
