package integration

import (
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// The outer hop's deadline is 10 s.
const retryAfterConfig = `
defaults: {backoff: {base: 0.001s, max: 0.002s}}
upstreams:
- {clusters: [none], policy: {backoff: {retry_after_cap: 0s}}}
- {clusters: [patient], policy: {backoff: {retry_after_cap: 60s}}}
`

// Each value is sent to an upstream whose cap is 0: what asks for any wait at all is denied there, and
// what reads as no wish is retried. So the reading shows without measuring time.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: retryAfterConfig, Patches: []stack.Patch{stack.NewPatch("clusters with other caps",
		upstreamLike("none", "", ""), upstreamLike("patient", "", ""))}})

	const absent, asked = "", "retry_after_too_long"
	for _, test := range []struct{ value, want string }{
		{"retry-after=1", asked},
		{"retry-after=0", absent},
		{"retry-after=9223372037", asked},  // seconds that do not fit into 64 bits of nanoseconds
		{"retry-after=18446744074", asked}, // and those that wrap to less than a second
		{"retry-after=99999999999999999999999", asked},
		{"retry-after=epoch:1s", asked}, // a date in seconds is a long wait
		{"retry-after=date:10s", asked},
		{"retry-after=rfc850:10s", asked},
		{"retry-after=asctime:10s", asked},
		{"retry-after=date:-10s", absent},
		{"retry-after=rfc850:-10s", absent},
		{"retry-after=asctime:-10s", absent},
		{"retry-after=-1", absent},
		{"retry-after=+1", absent},
		{"retry-after=1.5", absent},
		{"retry-after=0x10", absent},
		{"retry-after=1s", absent},
		{"retry-after=soon", absent},
		{`retry-after=""`, absent},
		{"retry-after=0 retry-after=1", asked}, // the largest of several
		{"retry-after=1 retry-after=soon", asked},
		{`retry-after="0, 1"`, asked},
		// The upstream's clock counts, where it shows one: ours is an hour off.
		{"clock=1h retry-after=date:10s", asked},
		{"clock=-1h retry-after=date:10s", asked},
		{"clock=1h retry-after=date:-10s", absent},
		{"clock=-1h retry-after=rfc850:-10s", absent},
		{"clock=none retry-after=date:10s", asked},
		{"clock=none retry-after=date:-10s", absent},
	} {
		t.Run("429 "+test.value, func(t *testing.T) {
			t.Parallel()
			a := s.Do(stack.Request{Method: "POST", Host: "none.example", Fault: "429 " + test.value + ", ok", Body: "pay"})
			if test.want == absent {
				wantReport(t, a, stack.Report{})
				wantHits(t, s, a, 2, 1)
				return
			}
			wantReport(t, a, stack.Report{Verdict: "denied", Reason: asked, Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"})
			wantHits(t, s, a, 1, 0)
		})
	}

	for _, test := range []struct {
		name, method, host, fault string
		want                      stack.Report
		effects                   int
	}{
		{"beyond the cap", "POST", "app", "429 retry-after=11", stack.Report{Verdict: "denied", Reason: asked, Execution: "NOT_EXECUTED"}, 0},
		{"beyond the deadline", "POST", "patient", "429 retry-after=10", stack.Report{Verdict: "denied", Reason: "deadline", Execution: "NOT_EXECUTED"}, 0},
		{"an epoch", "POST", "app", "429 retry-after=epoch:1s", stack.Report{Verdict: "denied", Reason: asked, Execution: "NOT_EXECUTED"}, 0},
		{"a number that would wrap", "POST", "app", "429 retry-after=18446744074", stack.Report{Verdict: "denied", Reason: asked, Execution: "NOT_EXECUTED"}, 0},
		{"503, PUT", "PUT", "app", "503 retry-after=11", stack.Report{Verdict: "denied", Reason: asked, Execution: "UNKNOWN"}, 1},
		{"503, POST", "POST", "app", "503 retry-after=11", stack.Report{Verdict: "ambiguous", Reason: "gateway_status", Execution: "UNKNOWN"}, 1},
		{"503 beyond the deadline", "GET", "patient", "503 retry-after=10", stack.Report{Verdict: "denied", Reason: "deadline", Execution: "UNKNOWN"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := stack.Request{Method: test.method, Host: test.host + ".example", Fault: test.fault}
			if test.method != "GET" {
				r.Body = "pay"
			}
			a := s.Do(r)
			test.want.Evidence, test.want.Attempts = "RESPONSE_RECEIVED", "1"
			wantReport(t, a, test.want)
			wantHits(t, s, a, 1, test.effects)
			if a.Elapsed > 5*time.Second { // milliseconds, when it is denied at once
				t.Errorf("denied after %v", a.Elapsed)
			}
		})
	}

	// It is a floor under the wait. On 408, 425 and 502 it is not read.
	for _, test := range []struct {
		method, fault string
		floor         time.Duration
		effects       int
	}{
		{"POST", "429 retry-after=1, ok", time.Second, 1},
		{"PUT", "503 retry-after=1, ok", time.Second, 2},
		{"POST", "429 retry-after=1 retry-after=2, ok", 2 * time.Second, 1},
		{"POST", "429 retry-after=date:2s, ok", 2 * time.Second, 1},
		{"POST", "429 clock=-1h retry-after=asctime:2s, ok", 2 * time.Second, 1},
		{"POST", "429 clock=1h retry-after=rfc850:2s, ok", 2 * time.Second, 1},
		{"POST", "429 clock=none retry-after=date:3s, ok", 2 * time.Second, 1}, // a date has whole seconds, our clock has not
		{"POST", "408 retry-after=3600, ok", 0, 1},
		{"POST", "425 retry-after=3600, ok", 0, 1},
		{"PUT", "502 retry-after=3600, ok", 0, 2},
	} {
		t.Run(test.method+" "+test.fault, func(t *testing.T) {
			t.Parallel()
			a := s.Do(stack.Request{Method: test.method, Fault: test.fault, Body: "pay"})
			wantReport(t, a, stack.Report{})
			wantHits(t, s, a, 2, test.effects)
			hits := s.Upstream.Hits(a.ID)
			if len(hits) != 2 {
				return
			}
			if waited := hits[1].At - hits[0].At; waited < test.floor {
				t.Errorf("the second attempt came after %v, want at least %v", waited, test.floor)
			}
		})
	}
}
