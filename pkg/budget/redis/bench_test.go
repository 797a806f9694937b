package redis

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// plenty pays for every decision of a benchmark by the reserve, so that all of them take the same path.
var plenty = budget.Settings{Reserve: budget.MaxReserve, Interval: time.Minute}

func benchAccount(b *testing.B) (budget.Account, *atomic.Int64) {
	b.Helper()
	address := redistest.Start(b, redistest.Binary(b)).Address
	r := dial(b, address)
	var calls atomic.Int64
	a := mustNew(b, same(plenty), Options{
		Server: at(address), Prefix: r.longUp(), OnCall: func(time.Duration, error) { calls.Add(1) },
	}).Account("u")
	for range 10 { // the lease follows the demand
		for range 10_000 {
			a.TryWithdraw(b.Context())
		}
	}
	calls.Store(0)
	return a, &calls
}

// A decision's token by lease, from memory, and by one call to Redis for each, which is the naive way.
//
//	go test -run '^$' -bench . -count 10 ./pkg/budget/redis | tee new
//	go tool benchstat -col /impl new
func BenchmarkDecision(b *testing.B) {
	count := func(b *testing.B, granted int, calls int64) {
		if granted < b.N*9/10 {
			b.Errorf("granted %d of %d", granted, b.N)
		}
		b.ReportMetric(1000*float64(calls)/float64(b.N), "calls/1000")
	}
	b.Run("impl=memory", func(b *testing.B) {
		a, granted := memory.New(same(plenty), memory.Options{}).Account("u"), 0
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := a.TryWithdraw(b.Context()); ok {
				granted++
			}
		}
		count(b, granted, 0)
	})
	b.Run("impl=leased", func(b *testing.B) {
		a, calls := benchAccount(b)
		granted := 0
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := a.TryWithdraw(b.Context()); ok {
				granted++
			}
		}
		count(b, granted, calls.Load())
	})
	b.Run("impl=naive", func(b *testing.B) {
		address := redistest.Start(b, redistest.Binary(b)).Address
		prefix := dial(b, address).longUp()
		account := mustNew(b, same(plenty), Options{Server: at(address), Prefix: prefix}).Account("u").(*account)
		r := &request{settings: plenty, want: 1}
		granted := 0
		b.ReportAllocs()
		for b.Loop() {
			if reply, err := account.budget.server.exec(account.keys, r); err == nil && len(reply.lots) > 0 {
				granted++
			}
		}
		count(b, granted, int64(b.N))
	})
}

// The rate of leased decisions divided by memory's, "of-memory": the median over pairs of batches, in
// turn, so that it can be read on a machine that does other work too. It is to be at least 0.8.
func BenchmarkLeasedRatio(b *testing.B) {
	const batch = 20_000
	leased, calls := benchAccount(b)
	m, ctx := memory.New(same(plenty), memory.Options{}).Account("u"), b.Context()
	var ratios []float64
	n, granted := 0, 0
	for b.Loop() {
		t0 := time.Now()
		for range batch {
			if _, ok := leased.TryWithdraw(ctx); ok {
				granted++
			}
		}
		t1 := time.Now()
		for range batch {
			m.TryWithdraw(ctx)
		}
		n += batch
		ratios = append(ratios, float64(time.Since(t1))/float64(t1.Sub(t0)))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-memory")
	b.ReportMetric(1000*float64(calls.Load())/float64(n), "calls/1000")
	b.ReportMetric(0, "ns/op")
	if granted < n*9/10 {
		b.Errorf("granted %d of %d", granted, n)
	}
}
