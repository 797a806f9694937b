package integration

import (
	"context"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// Each wait lasts at least 0.7 s (decorrelated jitter begins at the base).
const lateConfig = `
defaults: {backoff: {base: 0.7s, max: 1.5s, jitter: decorrelated}}
`

// A POST to a port where nobody listens is sent again, and is executed once when the port has opened
// during the wait. While the application itself answers, the same POST is not.
func TestEvidencePortOpensDuringTheWait(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: lateConfig, Patches: []stack.Patch{stack.LabClusters()}})
	pay := stack.Request{Method: "POST", Host: "late.example", ID: s.NewID(), Body: "pay"}
	type result struct {
		stack.Answer
		err error
	}
	done := make(chan result, 1)
	go func() {
		a, err := s.Try(context.Background(), pay)
		done <- result{a, err}
	}()
	waitFor(t, "the answer to be held", func() bool { return s.ServiceMetric(0, "verdict_waiting") == 1 })
	if err := s.Upstream.Late().Open(); err != nil {
		t.Fatal(err)
	}
	a := <-done
	if a.err != nil || a.Status != 200 {
		t.Fatalf("status %d: %v", a.Status, a.err)
	}
	wantReport(t, a.Answer, stack.Report{})
	wantHits(t, s, a.Answer, 1, 1)
	if n := s.ClusterStat("late", "upstream_cx_connect_fail"); n < 1 {
		t.Error("the first attempt was not refused")
	}
	if n := s.ServiceMetric(0, "verdict_decisions_total", "upstream=late", "verdict=retry", "evidence=NOT_SENT"); n < 1 {
		t.Error("no retry for want of a connection")
	}

	for fault, want := range map[string]stack.Report{
		"503, ok": {Verdict: "ambiguous", Reason: "gateway_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"},
		"500, ok": {Verdict: "denied", Reason: "status_not_retryable", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"},
	} {
		a := s.Do(stack.Request{Method: "POST", Host: "late.example", Fault: fault, Body: "pay"})
		wantReport(t, a, want)
		wantHits(t, s, a, 1, 1)
	}
}
