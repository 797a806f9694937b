package integration

import (
	"testing"

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
