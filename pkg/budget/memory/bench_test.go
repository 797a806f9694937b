package memory

import (
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// How a withdrawal on a resolved handle compares with the field's usual limiter, path by path: the
// memory account pays from deposits or from the reserve, Allow from its one bucket, both refuse.
//
//	go test -run '^$' -bench TryWithdraw -count 10 ./pkg/budget/memory | tee new
//	go tool benchstat -col /impl new
//
// The ratio verdict / rate is to be at most 1.0 on each path, and allocations 0.
func BenchmarkTryWithdraw(b *testing.B) {
	for _, path := range paths {
		b.Run("path="+path.name, func(b *testing.B) {
			b.Run("impl=verdict", func(b *testing.B) {
				a, ctx := path.account(), b.Context()
				b.ReportAllocs()
				ok := path.granted
				for b.Loop() {
					_, ok = a.TryWithdraw(ctx)
				}
				mustBe(b, path.granted, ok)
			})
			b.Run("impl=rate", func(b *testing.B) {
				l := path.limiter()
				b.ReportAllocs()
				ok := path.granted
				for b.Loop() {
					ok = l.Allow()
				}
				mustBe(b, path.granted, ok)
			})
		})
	}
}

// The ratio by itself, as "of-Allow": the median over pairs of batches, in turn, so that it can be read
// on a machine that does other work too, where the times above cannot.
func BenchmarkTryWithdrawRatio(b *testing.B) {
	const batch = 1000
	for _, path := range paths {
		b.Run("path="+path.name, func(b *testing.B) {
			a, l, ctx := path.account(), path.limiter(), b.Context()
			var ratios []float64
			for b.Loop() {
				t0 := time.Now()
				for range batch {
					a.TryWithdraw(ctx)
				}
				t1 := time.Now()
				for range batch {
					l.Allow()
				}
				ratios = append(ratios, float64(t1.Sub(t0))/float64(time.Since(t1)))
			}
			_, ok := a.TryWithdraw(ctx)
			mustBe(b, path.granted, ok)
			mustBe(b, path.granted, l.Allow())
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "of-Allow")
			b.ReportMetric(0, "ns/op")
		})
	}
}

var paths = []struct {
	name    string
	account func() budget.Account
	limiter func() *rate.Limiter
	granted bool
}{
	{"granted-earned", earned, always, true},
	{"granted-reserve", reserve, always, true},
	{"refused", empty, drained, false},
}

// The same, with all processors at one account. p is goroutines per processor.
func BenchmarkTryWithdrawContended(b *testing.B) {
	for _, p := range []int{1, 2} {
		b.Run("p="+strconv.Itoa(p), func(b *testing.B) {
			b.Run("impl=verdict", func(b *testing.B) {
				a, ctx := earned(), b.Context()
				b.SetParallelism(p)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						a.TryWithdraw(ctx)
					}
				})
			})
			b.Run("impl=rate", func(b *testing.B) {
				l := always()
				b.SetParallelism(p)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						l.Allow()
					}
				})
			})
		})
	}
}

// Two goroutines on two upstreams are to do at least 1.3 times the work of one goroutine on one:
// ns/op of goroutines=1 divided by that of goroutines=2/upstreams=2, median of 5. Needs 2 processors.
func BenchmarkUpstreams(b *testing.B) {
	for _, c := range []struct {
		name                  string
		goroutines, upstreams int
	}{
		{"goroutines=1/upstreams=1", 1, 1},
		{"goroutines=2/upstreams=1", 2, 1},
		{"goroutines=2/upstreams=2", 2, 2},
	} {
		b.Run(c.name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.goroutines)) // RunParallel starts as many
			bud := New(func(string) budget.Settings { return plenty }, Options{})
			accounts := make([]budget.Account, c.upstreams)
			for i := range accounts {
				accounts[i] = bud.Account(strconv.Itoa(i))
			}
			var worker atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				a, ctx := accounts[int(worker.Add(1))%len(accounts)], b.Context()
				for pb.Next() {
					a.TryWithdraw(ctx)
				}
			})
		})
	}
}

// The same of goroutines that share nothing: how much of a second processor is to be had now.
func BenchmarkProcessors(b *testing.B) {
	for _, goroutines := range []int{1, 2} {
		b.Run("goroutines="+strconv.Itoa(goroutines), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(goroutines))
			b.RunParallel(func(pb *testing.PB) {
				x := uint64(1)
				for pb.Next() {
					for range 50 {
						x ^= x<<13 ^ x>>7
					}
				}
				runtime.KeepAlive(x)
			})
		})
	}
}

// Resolving a handle, as a stream does once for every decision.
func BenchmarkAccount(b *testing.B) {
	bud := New(nil, Options{})
	b.ReportAllocs()
	for b.Loop() {
		bud.Account("cluster")
	}
}

func BenchmarkDeposit(b *testing.B) {
	a := New(nil, Options{}).Account("cluster")
	b.ReportAllocs()
	for b.Loop() {
		a.Deposit(1)
	}
}

// plenty outlasts any benchmark: nothing earned expires within a minute.
var plenty = budget.Settings{Ratio: 1000, Reserve: budget.MaxReserve, Interval: time.Minute}

func earned() budget.Account {
	s := plenty
	s.Reserve = 0
	a := New(func(string) budget.Settings { return s }, Options{}).Account("cluster")
	a.Deposit(1 << 40)
	return a
}

func reserve() budget.Account {
	return New(func(string) budget.Settings { return plenty }, Options{}).Account("cluster")
}

func empty() budget.Account {
	s := budget.Settings{Ratio: 200, Interval: 10 * time.Second}
	return New(func(string) budget.Settings { return s }, Options{}).Account("cluster")
}

func always() *rate.Limiter { return rate.NewLimiter(1e9, 1<<40) }

func drained() *rate.Limiter {
	l := rate.NewLimiter(1e-9, 1)
	l.Allow()
	return l
}

func mustBe(b *testing.B, want, got bool) {
	b.Helper()
	if got != want {
		b.Fatalf("the last call was granted: %v, want %v", got, want)
	}
}
