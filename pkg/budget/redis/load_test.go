package redis

import (
	"sync"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// Redis's load does not grow with the request rate, and hardly any decision waits.
func TestCallsPerSecond(t *testing.T) {
	for name, settings := range map[string]budget.Settings{
		"plenty": {Ratio: 1000, Reserve: 10, Interval: time.Second},
		"scarce": {Ratio: 20, Reserve: 10, Interval: time.Second},
		"none":   {Interval: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			address := redistest.Start(t, redistest.Binary(t)).Address
			var w watch
			b := mustNew(t, same(settings), w.options(Options{Server: at(address)}))
			a := b.Account("u")
			const decisions, length = 20_000, 2 * time.Second
			var worst time.Duration
			granted, late := 0, 0
			begun := time.Now()
			for n := range decisions {
				// 10,000 a second, caught up with after every sleep.
				if ahead := time.Duration(n)*length/decisions - time.Since(begun); ahead > 0 {
					time.Sleep(ahead)
				}
				a.Deposit(1)
				at := time.Now()
				if _, ok := a.TryWithdraw(t.Context()); ok {
					granted++
				}
				d := time.Since(at)
				worst = max(worst, d)
				if d > time.Millisecond {
					late++
				}
			}
			took := time.Since(begun).Seconds()
			calls := float64(w.calls.Load())
			t.Logf("%.0f decisions/s, %d granted, %d of them local; %.1f calls/s, %.2f per 1000 decisions; %d decisions took more than 1 ms, the longest %v",
				decisions/took, granted, w.local.Load(), calls/took, 1000*calls/decisions, late, worst)
			if calls/took > 100 {
				t.Errorf("%.1f calls a second, want at most 100", calls/took)
			}
			if decisions/took < 5000 {
				t.Errorf("only %.0f decisions a second", decisions/took)
			}
			if late > decisions/20 {
				t.Errorf("%d decisions waited", late)
			}
		})
	}
}

func TestPace(t *testing.T) {
	var p pace
	var taken []int64
	for now := int64(0); now < 5e9; now += 1e6 {
		if p.take(now) {
			taken = append(taken, now)
		}
	}
	for i, from := range taken {
		n := 0
		for _, at := range taken[i:] {
			if at < from+1e9 {
				n++
			}
		}
		if n > 100 {
			t.Fatalf("%d calls in the second from %d ns", n, from)
		}
	}
	if len(taken) < 400 {
		t.Errorf("%d calls in 5 s", len(taken))
	}
}

// A process that sees most of the failures gets most of the fleet's budget, and nearly all that the law
// allows is granted.
func TestUse(t *testing.T) {
	address := redistest.Start(t, redistest.Binary(t)).Address
	r := dial(t, address)
	prefix := r.longUp()
	settings := budget.Settings{Ratio: 200, Reserve: 20, Interval: time.Second}
	const processes, intervals = 4, 10
	granted := make([]int, processes)
	firsts := make([]int, processes)
	var running sync.WaitGroup
	begun := time.Now()
	for i := range processes {
		b := mustNew(t, same(settings), Options{Server: at(address), Prefix: prefix})
		running.Go(func() {
			a := b.Account("u")
			for n := 0; time.Since(begun) < intervals*settings.Interval; n++ {
				a.Deposit(1)
				firsts[i]++
				// The first process fails always and the others seldom, together less than a tenth of the failures.
				if i == 0 || n%35 == 0 {
					if _, ok := a.TryWithdraw(t.Context()); ok {
						granted[i]++
					}
				}
				time.Sleep(4 * time.Millisecond)
			}
		})
	}
	running.Wait()
	total, deposits := 0, 0
	for i := range processes {
		total += granted[i]
		deposits += firsts[i]
	}
	// What a window of the last interval allows, over ten of them.
	earned := float64(deposits*settings.Ratio) / budget.Token
	allowed := earned + intervals*float64(settings.Reserve)
	wanted := float64(firsts[0]) + float64(deposits-firsts[0])/35
	t.Logf("%d first attempts, %.0f retries wanted, %.0f allowed, granted %v", deposits, wanted, allowed, granted)
	if wanted < allowed {
		t.Fatalf("%.0f wanted: too few to use %.0f", wanted, allowed)
	}
	if float64(total) < 0.9*allowed {
		t.Errorf("granted %d, want 90 %% of %.0f", total, allowed)
	}
	if float64(granted[0]) < 0.9*float64(total) {
		t.Errorf("the process with %.0f %% of the failures got %d of %d", 100*float64(firsts[0])/wanted, granted[0], total)
	}
}
