package budgettest

import (
	"fmt"
	"slices"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// contractCases are about Return, Empty, State, List and Close.
var contractCases = []suiteCase{
	{"a returned grant never happened", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 1000, Reserve: 1, Interval: time.Minute})
		a.Deposit(1)
		grants := s.wantTokens(a, 2, "one earned and one of the reserve")
		a.Return(grants[0])
		s.wantHolds(a, 1000, 0, "the earned one is back")
		a.Return(grants[1])
		s.wantHolds(a, 1000, 1, "both are back")
		if n := a.State().Retries; n != 0 {
			s.Errorf("State counts %d retries, want none", n)
		}
		s.wantTokens(a, 2, "again")
	}},
	{"a second return changes nothing", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 1000, Reserve: 2, Interval: time.Minute})
		a.Deposit(2)
		grants := s.wantTokens(a, 4, "two earned and two of the reserve")
		for range 3 {
			a.Return(grants[0])
			a.Return(grants[3])
		}
		s.wantHolds(a, 1000, 1, "each back once")
		s.wantTokens(a, 2, "")
		a.Return(grants[0])
		a.Return(grants[3])
		s.wantTokens(a, 0, "the old grants were returned before")
	}},
	{"of simultaneous returns of one grant, one counts", func(s *subject) {
		a := s.account(budget.Settings{Reserve: 3, Interval: time.Minute})
		grants := s.wantTokens(a, 3, "")
		s.simultaneously(50, func(int) { a.Return(grants[1]) })
		s.wantTokens(a, 1, "one grant was returned")
	}},
	{"no grant, and another account's, are not taken", func(s *subject) {
		set := budget.Settings{Ratio: 1000, Reserve: 1, Interval: time.Minute}
		one, two := s.budget(set), s.budget(set)
		a := one.Account("a")
		s.wantTokens(a, 1, "a")
		foreign := append(s.wantTokens(one.Account("b"), 1, "b"), s.wantTokens(two.Account("a"), 1, "the other budget's a")...)
		for _, g := range append(foreign, budget.Grant{}) {
			a.Return(g)
		}
		s.wantTokens(a, 0, "nothing of its own was returned")
		one.Account("b").Return(foreign[0])
		s.wantTokens(one.Account("b"), 1, "its own, by another handle")
	}},
	{"a grant expires with what paid for it", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 1000, Reserve: 2, Interval: interval})
		a.Deposit(1)
		grants := s.wantTokens(a, 3, "")
		time.Sleep(over)
		s.wantTokens(a, 2, "the reserve is back")
		for _, g := range grants {
			a.Return(g)
		}
		s.wantTokens(a, 0, "expired grants came back")
	}},
	{"a returned token dies with its own deposit", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 1000, Interval: interval})
		a.Deposit(1)
		g := s.wantTokens(a, 1, "")
		time.Sleep(interval / 2)
		a.Return(g[0])
		s.wantHolds(a, 1000, 0, "returned before it expired")
		time.Sleep(over - interval/2)
		s.wantTokens(a, 0, "an interval after the deposit")
	}},
	{"a token of several deposits returns to the oldest", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 500, Interval: interval})
		a.Deposit(1)
		time.Sleep(interval / 2)
		a.Deposit(1)
		g := s.wantTokens(a, 1, "half old, half new")
		a.Return(g[0])
		s.wantHolds(a, 1000, 0, "returned")
		time.Sleep(over - interval/2)
		s.wantHolds(a, 0, 0, "an interval after the older deposit")
	}},
	{"empty is a refusal younger than 50 ms, and looking takes nothing", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 1000, Reserve: 1, Interval: time.Minute})
		if a.Empty() {
			s.Fatal("empty before any refusal")
		}
		s.wantHolds(a, 0, 1, "after a look")
		if g := s.withdraw(a, 1); len(g) != 1 || a.Empty() {
			s.Fatalf("granted %d of 1; empty without a refusal: %v", len(g), a.Empty())
		}
		seen := false
		for range 20 { // a loaded machine may let 50 ms pass between two lines
			s.wantTokens(a, 0, "drained")
			seen = seen || a.Empty()
		}
		if !seen {
			s.Fatal("not empty right after a refusal")
		}
		time.Sleep(budget.EmptyFor)
		if a.Empty() {
			s.Fatal("still empty 50 ms after the refusal")
		}
	}},
	{"State counts the window", func(s *subject) {
		a := s.account(budget.Settings{Ratio: 100, Reserve: 3, Interval: interval})
		a.Deposit(12)
		s.wantTokens(a, 4, "one earned, three of the reserve")
		got := a.State()
		want := budget.State{
			Upstream: "upstream", Settings: budget.Settings{Ratio: 100, Reserve: 3, Interval: interval},
			EarnedMilli: 200, Firsts: 12, Retries: 4, Refused: 1,
		}
		if got != want {
			s.Fatalf("got %+v, want %+v", got, want)
		}
		time.Sleep(over)
		want = budget.State{Upstream: want.Upstream, Settings: want.Settings, ReserveLeft: 3}
		if got := a.State(); got != want {
			s.Fatalf("an interval later: got %+v, want %+v", got, want)
		}
	}},
	{"List shows every account in order", func(s *subject) {
		b := s.budget(budget.Settings{Ratio: 100, Interval: time.Minute})
		names := []string{"b", "c", "a"}
		for i, name := range names {
			b.Account(name).Deposit(i + 1)
		}
		var got []string
		for _, st := range b.List() {
			got = append(got, fmt.Sprint(st.Upstream, st.Firsts))
		}
		if want := []string{"a3", "b1", "c2"}; !slices.Equal(got, want) {
			s.Fatalf("got %v, want %v", got, want)
		}
	}},
	{"an upstream without a name has no reserve", func(s *subject) {
		a := s.budget(budget.Settings{Ratio: 1000, Reserve: 5, Interval: interval}).Account("")
		s.wantTokens(a, 0, "no deposit yet")
		a.Deposit(2)
		grants := s.wantTokens(a, 2, "two first attempts")
		a.Return(grants[0])
		s.wantTokens(a, 1, "returned")
	}},
	{"a closed budget grants nothing", func(s *subject) {
		b := s.open(s.T, budget.Settings{Ratio: 1000, Reserve: 5, Interval: time.Minute})
		old, shared := b.Account("old"), b.Account("")
		old.Deposit(5)
		g, ok := old.TryWithdraw(s.ctx())
		if !ok {
			s.Fatal("refused before Close")
		}
		if err := b.Close(); err != nil {
			s.Fatal(err)
		}
		for _, a := range []budget.Account{old, shared, b.Account("new"), b.Account("")} {
			a.Return(g)
			a.Deposit(100)
			s.wantTokens(a, 0, "closed")
			if !a.Empty() {
				s.Error("closed and not empty")
			}
			a.State()
		}
		if err := b.Close(); err != nil {
			s.Errorf("second Close: %v", err)
		}
	}},
}
