package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// In shadow mode the traffic is what it would be with Verdict down, and what would have been decided is
// counted, remembered and entered.
func TestAPIShadow(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"one upstream": {"--shadow", "other", "--shadow", "app"}, "all": {"--shadow-all"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Config: payments, ExtprocArgs: args})
			server := "--server=" + s.ServiceAdminURL(0)[len("http://"):]
			for _, r := range []stack.Request{
				{Fault: "503, ok"},
				{Method: "POST", Fault: "429 body=20, ok", Body: "pay"},
				{Method: "POST", Fault: "reset, ok", Body: "pay"},
				{Method: "POST", Fault: "404", Body: "pay"},
			} {
				a := s.Do(r)
				want := stack.Report{}
				if r.Fault == "reset, ok" { // as with Verdict down: Envoy's own label on Envoy's own reply
					want = stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
				}
				wantReport(t, a, want)
				if a.Status < 400 {
					t.Errorf("%s %s: status %d, %+v", r.Method, r.Fault, a.Status, a.Report())
				}
				if hits := len(s.Upstream.Hits(a.ID)); hits != 1 {
					t.Errorf("%s %s: %d hits, want 1", r.Method, r.Fault, hits)
				}
				wantNothingInternal(t, a)
			}
			for verdict, want := range map[string]float64{"retry": 2, "ambiguous": 1, "denied": 1} {
				if n := s.ServiceMetric(0, "verdict_decisions_total", "verdict="+verdict); n != want {
					t.Errorf("%v decided %s, want %v", n, verdict, want)
				}
			}
			wantOutput(t, true, []string{`"retries":"0"`}, extproc, "budget", "get", "app", server)
			wantOutput(t, true, []string{`"REASON_SENT_NO_RESPONSE"`}, extproc, "ledger", "list", server)
		})
	}
}

// What is not in the shadow is acted on.
func TestAPIShadowOfAnotherUpstream(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: payments, ExtprocArgs: []string{"--shadow", "other"}})
	if a := s.Do(stack.Request{Fault: "503, ok"}); a.Status != 200 {
		t.Errorf("status %d, %+v", a.Status, a.Report())
	}
}
