package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// What a sample costs every two seconds where 1000 upstreams have four series each.
func BenchmarkSample(b *testing.B) {
	m := telemetry.New(prometheus.NewRegistry())
	for i := range 1000 {
		name := fmt.Sprintf("upstream-%d", i)
		m.FirstAttempts(name, 1)
		for _, reason := range []decision.Reason{decision.ReasonMaxAttempts, decision.ReasonDeadline, decision.ReasonBudgetExhausted} {
			m.Decision(name, decision.Decision{Verdict: decision.Denied, Reason: reason})
		}
	}
	s := newSamples(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		s.add(time.Now(), m.Counts(), nil, nil)
	}
}
