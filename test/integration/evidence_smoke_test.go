package integration

import (
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// With Verdict down traffic flows, nothing is retried, and Envoy alone says of an outcome that may
// hide a side effect that it is ambiguous.
func TestVerdictDown(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Down: true})
	unjudged := stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
	for _, test := range []struct {
		name    string
		request stack.Request
		status  int
		body    string
		report  stack.Report
	}{
		{"GET answered", stack.Request{Fault: "ok body=20"}, 200, string(upstream.Body(20)), stack.Report{}},
		{"POST answered 503", stack.Request{Method: "POST", Fault: "status:503 body=300", Body: "pay"}, 503, string(upstream.Body(300)), unjudged},
		{"POST answered 500", stack.Request{Method: "POST", Fault: "status:500 body=300", Body: "pay"}, 500, string(upstream.Body(300)), stack.Report{}},
		{"GET reset", stack.Request{Fault: "reset"}, 503, envoyReset, stack.Report{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := s.Do(test.request)
			if a.Status != test.status {
				t.Errorf("status %d, want %d", a.Status, test.status)
			}
			if a.Body != test.body {
				t.Errorf("body %q, want %q", a.Body, test.body)
			}
			wantReport(t, a, test.report)
			if id := a.Report().AmbiguityID; (id != "") != (test.report.Verdict == "ambiguous") {
				t.Errorf("x-retry-ambiguity-id %q", id)
			}
			wantHits(t, s, a, 1, 1)
			wantNothingInternal(t, a)
		})
	}
}

const envoyReset = "upstream connect error or disconnect/reset before headers. reset reason: connection termination"

// The three answers of Verdict, on one row each.
func TestVerdictUp(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{
		Patches: []stack.Patch{stack.LabClusters()},
		Config: `
upstreams:
- clusters: [late]
  policy: {backoff: {base: 0.2s, jitter: decorrelated}}
`})

	t.Run("POST reset is ambiguous", func(t *testing.T) {
		a := s.Do(stack.Request{Method: "POST", Fault: "reset", Body: "pay"})
		if a.Status != 503 || a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("status %d, content-type %q: %s", a.Status, a.Header.Get("Content-Type"), a.Body)
		}
		wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
		if a.Report().AmbiguityID == "" {
			t.Error("no x-retry-ambiguity-id")
		}
		wantHits(t, s, a, 1, 1)
		wantNothingInternal(t, a)
	})
	t.Run("GET reset is retried", func(t *testing.T) {
		a := s.Do(stack.Request{Fault: "reset, ok"})
		if a.Status != 200 {
			t.Errorf("status %d: %s", a.Status, a.Body)
		}
		wantReport(t, a, stack.Report{})
		wantHits(t, s, a, 2, 2)
		wantNothingInternal(t, a)
	})
	t.Run("POST to a closed port is retried", func(t *testing.T) {
		before := s.ClusterStat("closed", "upstream_cx_connect_fail")
		a := s.Do(stack.Request{Method: "POST", Host: "closed.example", Body: "pay"})
		if a.Status != 503 {
			t.Errorf("status %d: %s", a.Status, a.Body)
		}
		wantReport(t, a, stack.Report{Verdict: "denied", Reason: "max_attempts", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "3"})
		if got := s.ClusterStat("closed", "upstream_cx_connect_fail") - before; got != 3 {
			t.Errorf("connected %d times, want 3", got)
		}
		wantHits(t, s, a, 0, 0)
	})
	t.Run("POST to a port that opens during the wait is executed once", func(t *testing.T) {
		answered := make(chan stack.Answer, 1)
		go func() {
			a, _ := s.Try(t.Context(), stack.Request{Method: "POST", Host: "late.example", Body: "pay"})
			answered <- a
		}()
		s.WaitStat("cluster.late.upstream_cx_connect_fail", 1)
		if err := s.Upstream.Late().Open(); err != nil {
			t.Fatal(err)
		}
		a := <-answered
		if a.Status != 200 || a.Elapsed < 200*time.Millisecond {
			t.Errorf("status %d after %v: %s", a.Status, a.Elapsed, a.Body)
		}
		wantHits(t, s, a, 1, 1)
	})
	t.Run("decisions are counted", func(t *testing.T) {
		if got := s.ServiceMetric(0, "verdict_decisions_total", "upstream=closed", "verdict=retry"); got != 2 {
			t.Errorf("%v retries of cluster closed, want 2", got)
		}
	})
}
