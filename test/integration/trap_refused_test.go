package integration

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// noRetries lets router A do none of what the judge says.
var noRetries = stack.NewPatch("the circuit breaker of the cluster attempts lets no retry pass",
	stack.Set(stack.Cluster("attempts")+"/circuit_breakers", `{thresholds: [{max_retries: 0, max_requests: 1000, max_pending_requests: 1000, max_connections: 1000}]}`))

// neverRefused hides from the finalizer what tells it of a retry that router A has not done.
var neverRefused = stack.NewPatch("a report is enough for the finalizer to be left out", hideControl("finalizer"), hideControl("outer-facts"))

func hideControl(filter string) stack.Edit {
	return stack.Set(stack.FilterConfig("outer", filter)+
		"/xds_matcher/matcher_list/matchers/0/predicate/or_matcher/predicate/0/and_matcher/predicate/1/not_matcher/single_predicate/value_match", "{exact: never}")
}

// A retry that the judge has said and router A has not done is reported by the judge's own answer; the
// finalizer enters and counts it, and changes nothing of it.
func TestTrapRefusedRetryIsEntered(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{noRetries}})
	server := "--server=" + strings.TrimPrefix(s.ServiceAdminURL(0), "http://")
	unknown := stack.Report{Verdict: "denied", Reason: "retry_not_executed", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"}
	sent := unknown
	sent.Evidence = "SENT_NO_RESPONSE"
	entered := 0
	for _, test := range []struct {
		request stack.Request
		want    stack.Report
		entered bool
	}{
		{stack.Request{Method: "PUT", Fault: "503, ok", Body: "pay"}, unknown, true},
		{stack.Request{Method: "PUT", Fault: "reset, ok", Body: "pay"}, sent, true},
		{stack.Request{Fault: "503, ok"}, unknown, false},                        // safe
		{stack.Request{Method: "POST", Fault: "429, ok"}, routerARefused, false}, // certain
	} {
		a := s.Do(test.request)
		wantReport(t, a, test.want)
		if hits := len(s.Upstream.Hits(a.ID)); hits != 1 || a.Status == 200 {
			t.Errorf("%s %s: status %d, %d hits: router A has done it", test.request.Method, test.request.Fault, a.Status, hits)
		}
		wantNothingInternal(t, a)
		id := a.Report().AmbiguityID
		if (id != "") != test.entered {
			t.Errorf("%s %s: case %q", test.request.Method, test.request.Fault, id)
		}
		if test.entered {
			entered++
			wantOutput(t, true, []string{`"REASON_RETRY_NOT_EXECUTED"`, `"VERDICT_DENIED"`, `"upstream":"app"`, `"method":"PUT"`}, extproc, "ledger", "get", id, server)
		}
		wantOutput(t, true, []string{"attempt 1: retry", "attempt 1: denied(retry_not_executed)"}, extproc, "why", a.Report().RequestID, server)
	}
	listed := wantOutput(t, true, nil, extproc, "ledger", "list", server)
	if n := strings.Count(listed, "\n"); n != entered {
		t.Errorf("%d cases:\n%s", n, listed)
	}
	for metric, want := range map[string]float64{"verdict_uncertain_outcomes_total": 2, "verdict_finalized_total": 0} {
		if got := s.ServiceMetric(0, metric); got != want {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	if n := s.ServiceMetric(0, "verdict_decisions_total", "reason=retry_not_executed"); n != 4 {
		t.Errorf("%v retries counted as not executed, want 4", n)
	}
}

// Without that the caller is told of a case that nobody has.
func TestTrapRefusedRetryIsEnteredBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{noRetries, neverRefused}})
	a := s.Do(stack.Request{Method: "PUT", Fault: "503, ok", Body: "pay"})
	if a.Report().Reason != "retry_not_executed" || a.Report().AmbiguityID == "" {
		t.Fatalf("%+v", a.Report())
	}
	wantOutput(t, false, []string{"NotFound"}, extproc, "ledger", "get", a.Report().AmbiguityID, "--server="+strings.TrimPrefix(s.ServiceAdminURL(0), "http://"))
}
