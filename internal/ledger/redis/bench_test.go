package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// What entering costs whoever answers, and how fast cases get to the server.
func BenchmarkEnter(b *testing.B) {
	server := redistest.Start(b, redistest.Binary(b))
	l := mustNew(b, Options{Server: at(server.Address), Size: 1 << 20})
	entries := make([]ledger.Entry, 1<<16)
	for i := range entries {
		entries[i] = ledger.Entry{CaseID: fmt.Sprint(i), Upstream: "app", Path: "/pay"}
	}
	b.ReportAllocs()
	i, begin := 0, time.Now()
	for b.Loop() {
		e := &entries[i%len(entries)]
		e.Attempts = i / len(entries)
		l.Enter(*e)
		i++
	}
	b.StopTimer()
	settle(b, l)
	b.ReportMetric(float64(i)/time.Since(begin).Seconds(), "brought/s")
}
