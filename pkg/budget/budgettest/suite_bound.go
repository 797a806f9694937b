package budgettest

import (
	"fmt"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// boundCases are about budgets with a bounded number of accounts.
var boundCases = []suiteCase{
	{"when all are busy, newcomers share an account that has no reserve", func(s *subject) {
		b := s.budget(budget.Settings{Ratio: 500, Reserve: 2, Interval: time.Minute})
		s.fill(b)
		one, two := b.Account("newcomer 1"), b.Account("newcomer 2")
		s.wantTokens(one, 0, "a newcomer without deposits")
		one.Deposit(1)
		two.Deposit(1)
		g := s.wantTokens(two, 1, "two halves by two newcomers")
		s.wantSource(g, budget.SourceEarned)
		one.Return(g[0])
		s.wantTokens(one, 1, "the shared token came back")
		if list := b.List(); len(list) != s.max+1 || list[0].Upstream != "" || list[0].Firsts != 2 {
			s.Fatalf("List has %d accounts, the first is %+v", len(list), list[0])
		}
		for i := range s.max {
			s.wantTokens(b.Account(busy(i)), 1, "one of the first, with one token of the reserve left")
		}
	}},
	{"any number of newcomers gets no reserve", func(s *subject) {
		b := s.budget(budget.Settings{Reserve: 2, Interval: time.Minute})
		s.fill(b)
		for i := range 20 * s.max {
			s.wantTokens(b.Account(fmt.Sprint("newcomer ", i)), 0, "all are busy")
		}
		if n := len(b.List()); n > s.max+1 {
			s.Fatalf("%d accounts, want at most %d", n, s.max+1)
		}
	}},
	{"an idle account makes room, and a newcomer's handle finds its own account then", func(s *subject) {
		b := s.budget(budget.Settings{Ratio: 1000, Reserve: 2, Interval: interval})
		s.fill(b)
		newcomer := b.Account("newcomer")
		newcomer.Deposit(1)
		shared := s.wantTokens(newcomer, 1, "shared")
		time.Sleep(over)
		s.wantSource(s.wantTokens(newcomer, 2, "its own reserve"), budget.SourceReserve)
		newcomer.Return(shared[0])
		s.wantTokens(newcomer, 0, "the shared account's grant is not its own")
	}},
	{"a handle from before the eviction gets no second reserve", func(s *subject) {
		b := s.budget(budget.Settings{Ratio: 1000, Reserve: 2, Interval: interval})
		old := b.Account("old")
		grants := s.wantTokens(old, 2, "before")
		time.Sleep(over)
		s.fill(b) // evicts it
		s.wantTokens(old, 0, "all are busy: it shares")
		time.Sleep(over)
		anew := b.Account("old")
		s.wantTokens(anew, 2, "the new account's reserve")
		s.wantTokens(old, 0, "the same account by the old handle")
		for _, g := range grants {
			old.Return(g)
		}
		s.wantTokens(old, 0, "grants from before the eviction")
		old.Deposit(1)
		s.wantTokens(anew, 1, "deposited by the old handle")
	}},
	{"an account that is used by its handle alone is not evicted", func(s *subject) {
		b := s.budget(budget.Settings{Ratio: 1000, Reserve: 2, Interval: interval})
		used := b.Account("used") // the least recently resolved
		for range 4 {
			time.Sleep(interval / 4)
			used.Deposit(1)
		}
		s.fill(b)
		if st := used.State(); st.Upstream != "used" || st.Firsts < 3 {
			s.Fatalf("the busy account lost its deposits: %+v", st)
		}
	}},
	{"simultaneous newcomers do not exceed the bound", func(s *subject) {
		b := s.budget(budget.Settings{Reserve: 1, Interval: time.Minute})
		granted := make([]int, 8*s.max)
		s.simultaneously(len(granted), func(i int) { granted[i] = len(s.withdraw(b.Account(busy(i)), 2)) })
		total := 0
		for _, n := range granted {
			total += n
		}
		if total != s.max {
			s.Fatalf("granted %d, want the reserve of %d accounts", total, s.max)
		}
	}},
}

func busy(i int) string { return fmt.Sprint("busy ", i) }

// fill makes as many accounts as the budget has room for, each with one token of the reserve spent.
func (s *subject) fill(b budget.Budget) {
	s.Helper()
	for i := range s.max {
		s.withdraw(b.Account(busy(i)), 1)
	}
}
