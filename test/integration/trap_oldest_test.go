package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// Envoy 1.36 skips ext_proc on its own local replies, unless a runtime guard says otherwise. Without it
// they are not judged, and so not retried. Those of the inner hop are answers to the outer one, whose
// finalizer labels them by their facts; those of the outer hop are labelled by Envoy alone.
func TestTrapOldestEnvoy(t *testing.T) {
	t.Parallel()
	withoutGuard := stack.NewPatch("no runtime guard", stack.Remove("layered_runtime"))
	for _, test := range []struct {
		name       string
		patches    []stack.Patch
		get        stack.Report // on a GET that is reset once
		getHits    int
		closed     stack.Report // on a POST to a closed port
		connects   int
		byVerdict  bool // the outer hop's timeout is labelled by Verdict, with a problem body
		finalizers int  // how many of these answers reached the finalizer
	}{
		{"with the guard", nil, stack.Report{}, 2,
			stack.Report{Verdict: "denied", Reason: "max_attempts", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "3"}, 3, true, 1},
		{"without it", []stack.Patch{withoutGuard}, finalizedSafe, 1,
			stack.Report{Verdict: "denied", Reason: "retry_not_executed", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "1"}, 1, false, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startTrap(t, stack.Options{Envoy: stack.OldestEnvoy, Patches: append([]stack.Patch{stack.LabClusters(), impatient}, test.patches...)})

			a := s.Do(stack.Request{Method: "POST", Fault: "reset", Body: "pay"})
			wantReport(t, a, resetReport)
			wantHits(t, s, a, 1, 1)
			if got := a.Header.Get("Content-Type"); a.Status != 503 || got != problemJSON {
				t.Errorf("POST reset: status %d, content-type %q", a.Status, got)
			}

			a = s.Do(stack.Request{Fault: "reset, ok"})
			wantReport(t, a, test.get)
			wantHits(t, s, a, test.getHits, test.getHits)

			a = s.Do(stack.Request{Method: "POST", Host: "closed.example", Body: "pay"})
			wantReport(t, a, test.closed)
			if n := s.ClusterStat("closed", "upstream_cx_connect_fail"); n != test.connects {
				t.Errorf("connected %d times, want %d", n, test.connects)
			}

			// An upstream's answers are judged in any case.
			a = s.Do(stack.Request{Method: "POST", Fault: "429, ok", Body: "pay"})
			wantReport(t, a, stack.Report{})
			wantHits(t, s, a, 2, 1)
			a = s.Do(stack.Request{Method: "POST", Fault: "503", Body: "pay"})
			wantReport(t, a, gatewayReport)
			wantHits(t, s, a, 1, 1)

			a = s.Do(stack.Request{Method: "POST", Host: "early.example", Fault: "stuck", Body: "pay"})
			wantReport(t, a, finalized)
			wantHits(t, s, a, 1, 1)
			if a.Status != 504 || (a.Header.Get("Content-Type") == problemJSON) != test.byVerdict {
				t.Errorf("deadline: status %d, content-type %q", a.Status, a.Header.Get("Content-Type"))
			}
			if a.Report().AmbiguityID == "" {
				t.Error("deadline: no x-retry-ambiguity-id")
			}

			if n := s.ServiceMetric(0, "verdict_finalized_total"); int(n) != test.finalizers {
				t.Errorf("%v answers reached the finalizer, want %d", n, test.finalizers)
			}
		})
	}
}
