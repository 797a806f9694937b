package telemetry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/verdictproxy/verdict/pkg/decision"
)

func TestCounts(t *testing.T) {
	m := New(prometheus.NewRegistry())
	if got := m.Counts(); len(got) != 0 {
		t.Errorf("at first %v", got)
	}
	m.FirstAttempts("app", 5)
	m.Decision("app", decision.Decision{Verdict: decision.Retry, Evidence: decision.NotSent})
	m.Decision("app", decision.Decision{Verdict: decision.Retry, Evidence: decision.SentNoResponse, Uncertain: true})
	m.Decision("app", decision.Decision{Verdict: decision.Denied, Reason: decision.ReasonMaxAttempts, Uncertain: true})
	m.Decision("app", decision.Decision{Verdict: decision.Ambiguous, Reason: decision.ReasonGatewayStatus, Uncertain: true})
	m.CutOff("")
	want := map[string]*Counts{
		"app": {
			Upstream: "app", FirstAttempts: 5, Retries: 2, Denied: map[string]uint64{"max_attempts": 1},
			Ambiguous: map[string]uint64{"gateway_status": 1}, Uncertain: 2,
		},
		OtherUpstreams: {Upstream: OtherUpstreams, CutOff: 1, Denied: map[string]uint64{}, Ambiguous: map[string]uint64{}},
	}
	if diff := cmp.Diff(want, m.Counts()); diff != "" {
		t.Error(diff)
	}
}
