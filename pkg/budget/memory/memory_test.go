package memory

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/budgettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func same(s budget.Settings) func(string) budget.Settings {
	return func(string) budget.Settings { return s }
}

func TestContract(t *testing.T) {
	open := func(_ *testing.T, s budget.Settings) budget.Budget {
		return New(same(s), Options{MaxUpstreams: 5})
	}
	t.Run("virtual", func(t *testing.T) {
		budgettest.Run(t, open, budgettest.Options{Virtual: true, MaxUpstreams: 5})
	})
	t.Run("real", func(t *testing.T) { budgettest.Run(t, open, budgettest.Options{MaxUpstreams: 5}) })
}

func TestNoAllocations(t *testing.T) {
	b := New(nil, Options{})
	paid, ctx := earned(), t.Context()
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"TryWithdraw, paid by deposits", func() { paid.TryWithdraw(ctx) }},
		{"TryWithdraw, paid by the reserve", func(a budget.Account) func() { return func() { a.TryWithdraw(ctx) } }(reserve())},
		{"TryWithdraw, refused", func(a budget.Account) func() { return func() { a.TryWithdraw(ctx) } }(empty())},
		{"Account", func() { b.Account("cluster") }},
		{"Deposit", func() { paid.Deposit(1) }},
		{"Empty", func() { paid.Empty() }},
	} {
		if n := testing.AllocsPerRun(1000, c.f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", c.name, n)
		}
	}
}

func drain(a budget.Account) (grants []budget.Grant) {
	for {
		g, ok := a.TryWithdraw(context.Background())
		if !ok {
			return grants
		}
		grants = append(grants, g)
	}
}

// An evicted account's successor must not begin at an earlier time than the account ended.
func TestClockStepsBackAfterEviction(t *testing.T) {
	now := 98 * time.Second
	s := budget.Settings{Reserve: 3, Interval: time.Second}
	var log bytes.Buffer
	b := New(same(s), Options{
		MaxUpstreams: 2, Clock: func() int64 { return int64(now) }, Log: budget.NewEventLog(&log, "p", nil),
	})
	b.Account("idle since long ago")
	now = 100 * time.Second
	drain(b.Account("a"))
	b.Account("idle since long ago")
	now = 102 * time.Second
	b.Account("evicts a")
	now = 100*time.Second + 500*time.Millisecond
	if n := len(drain(b.Account("a"))); n != 3 {
		t.Fatalf("granted %d, want the reserve: a was evicted", n)
	}
	if err := budgettest.Check(&log, same(s)); err != nil {
		t.Fatal(err)
	}
}

// A newcomer that has got its own account returns what it was granted while it shared to where it
// came from.
func TestReturnToTheSharedAccount(t *testing.T) {
	now := time.Second
	b := New(same(budget.Settings{Ratio: 1000, Interval: time.Second}), Options{MaxUpstreams: 1, Clock: func() int64 { return int64(now) }})
	b.Account("busy")
	newcomer := b.Account("newcomer")
	newcomer.Deposit(2)
	g := drain(newcomer)
	now += 2 * time.Second
	own := b.Account("newcomer")
	newcomer.Return(g[0])
	own.Return(g[1])
	own.Return(g[1])
	if own.State().Upstream != "newcomer" || own.State().EarnedMilli != 0 || b.Account("").State().EarnedMilli != 2000 {
		t.Fatalf("its own account: %+v, the shared one: %+v", own.State(), b.Account("").State())
	}
}

func TestReload(t *testing.T) {
	now := time.Second
	current := map[string]budget.Settings{
		"a": {Ratio: 1000, Reserve: 3, Interval: 10 * time.Second},
		"b": {Ratio: 1000, Reserve: 3, Interval: 10 * time.Second},
	}
	b := New(func(u string) budget.Settings { return current[u] }, Options{Clock: func() int64 { return int64(now) }})
	for name := range current {
		if n := len(drain(b.Account(name))); n != 3 {
			t.Fatalf("%s: granted %d, want 3", name, n)
		}
		current[name] = budget.Settings{Ratio: 500, Reserve: 4, Interval: 10 * time.Second}
	}
	a := b.Account("a")
	a.Deposit(1)
	if n := len(drain(a)); n != 1 {
		t.Fatalf("granted %d before the reload, want one at the old ratio", n)
	}
	current["b"] = budget.Never
	b.Reload()
	a.Deposit(1)
	if st := a.State(); st.EarnedMilli != 500 || st.ReserveLeft != 1 || st.Settings != current["a"] {
		t.Fatalf("after the reload: %+v, want half a token and the difference of the reserves", st)
	}
	if n := len(drain(b.Account("b"))); n != 0 || !b.Account("b").Empty() {
		t.Fatalf("Never granted %d", n)
	}
}

func TestReloadMayMakeAccountsIdleEarlier(t *testing.T) {
	now := time.Second
	s := budget.Settings{Reserve: 3, Interval: time.Minute}
	b := New(func(string) budget.Settings { return s }, Options{MaxUpstreams: 1, Clock: func() int64 { return int64(now) }})
	b.Account("busy")
	newcomer := b.Account("newcomer")
	if n := len(drain(newcomer)); n != 0 {
		t.Fatalf("granted %d while it shares", n)
	}
	s.Interval = time.Second
	b.Reload()
	now += 2 * time.Second
	if n := len(drain(newcomer)); n != 3 {
		t.Fatalf("granted %d, want the reserve of its own account", n)
	}
}

// Upstreams that share by force keep their own word about themselves.
func TestSharingByOwnSettings(t *testing.T) {
	settings := map[string]budget.Settings{
		"never": budget.Never, "unlimited": budget.Unlimited,
		"half": {Ratio: 500, Reserve: 9, Interval: time.Second}, "full": {Ratio: 1000, Reserve: 9, Interval: time.Minute},
	}
	b := New(func(u string) budget.Settings { return settings[u] }, Options{MaxUpstreams: 1, Clock: func() int64 { return 0 }})
	b.Account("busy")
	for _, name := range []string{"never", "unlimited"} {
		b.Account(name).Deposit(100)
	}
	b.Account("half").Deposit(3)
	b.Account("full").Deposit(2)
	for _, name := range []string{"never", "unlimited"} {
		if n := len(drain(b.Account(name))); n != 0 || !b.Account(name).Empty() {
			t.Errorf("%s was granted %d tokens that others earned", name, n)
		}
	}
	if b.Account("half").Empty() {
		t.Error("empty, with tokens there and nothing of it refused")
	}
	if n := len(drain(b.Account("half"))); n != 3 {
		t.Errorf("granted %d, want 3 of 3.5", n)
	}
	if n := len(b.List()); n != 2 {
		t.Errorf("%d accounts, want the busy one and the shared one", n)
	}
}

// Evictions under way beside withdrawals, deposits and returns on kept handles, by the real clock:
// the law holds in the event log, and what callers were given is what the log says.
func TestLawUnderConcurrency(t *testing.T) {
	var log lockedBuffer
	s := budget.Settings{Ratio: 200, Reserve: 20, Interval: time.Second}
	b := New(same(s), Options{MaxUpstreams: 2, Log: budget.NewEventLog(&log, "p", nil)})
	begin := time.Now()
	var wg sync.WaitGroup
	granted := make([]int, 4)
	for i := range granted {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			kept := [3]budget.Account{b.Account("0"), b.Account("1"), b.Account("2")}
			for time.Since(begin) < 2500*time.Millisecond {
				n := r.IntN(3)
				if time.Since(begin)/time.Second == 1 {
					n = 2 // leaves the others idle for an interval
				}
				kept[n].Deposit(r.IntN(4))
				if g, ok := kept[n].TryWithdraw(t.Context()); ok {
					granted[i]++
					if r.IntN(4) == 0 {
						kept[n].Return(g)
						kept[n].Return(g)
						granted[i]--
					}
				}
				time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
			}
		})
	}
	wg.Wait()
	text := log.String()
	net := netGrants(t, text)
	total := 0
	for _, n := range granted {
		total += n
	}
	if net != total || total < 100 {
		t.Errorf("the log has %d net grants, callers had %d", net, total)
	}
	err := budgettest.Check(&log.Buffer, func(upstream string) budget.Settings {
		if upstream == "" {
			return budget.Settings{Ratio: s.Ratio, Interval: budget.DefaultSettings().Interval}
		}
		return s
	})
	if err != nil {
		t.Error(err)
	}
}

func TestMaxUpstreams(t *testing.T) {
	b := New(nil, Options{Clock: func() int64 { return 0 }})
	for i := range DefaultMaxUpstreams + 10 {
		b.Account(fmt.Sprint(i))
	}
	if n := len(b.List()); n != DefaultMaxUpstreams {
		t.Fatalf("%d accounts, want %d", n, DefaultMaxUpstreams)
	}
}
