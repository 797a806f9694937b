package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

const statusConfig = `
defaults: {backoff: {base: 0.001s, max: 0.002s}}
upstreams:
- {clusters: [distrusted], policy: {distrusted_statuses: [408, 425, 429]}}
- {clusters: [transient], policy: {transient_statuses: [500, 520]}}
`

// What the status rows of the evidence table leave out: whose word is taken, and how often.
func TestStatusRules(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: statusConfig, Patches: []stack.Patch{stack.NewPatch("clusters with other policies",
		upstreamLike("distrusted", "", ""), upstreamLike("transient", "", ""))}})
	early := []string{"early-data: 1"}
	success := stack.Report{}
	denied := func(reason, execution, attempts string) stack.Report {
		return stack.Report{Verdict: "denied", Reason: reason, Evidence: "RESPONSE_RECEIVED", Execution: execution, Attempts: attempts}
	}
	gateway := stack.Report{Verdict: "ambiguous", Reason: "gateway_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"}
	for _, test := range []struct {
		method, host, fault string
		header              []string
		status              int
		want                stack.Report
		hits, effects       int
	}{
		// 425: one retry, and none where the client itself has sent early data.
		{"POST", "app", "425, 425, ok", nil, 425, denied("too_early", "NOT_EXECUTED", "2"), 2, 0},
		{"POST", "app", "425, ok", nil, 200, success, 2, 1},
		{"POST", "app", "425, ok", early, 425, denied("too_early", "NOT_EXECUTED", "1"), 1, 0},
		{"GET", "app", "425, ok", early, 425, denied("too_early", "NOT_EXECUTED", "1"), 1, 0},
		// A retry that comes after another failure is not the first attempt either.
		{"POST", "app", "429, 425, ok", nil, 425, denied("too_early", "NOT_EXECUTED", "2"), 2, 0},

		// Taken at their word, or not.
		{"POST", "app", "408, 429, ok", nil, 200, success, 3, 1},
		{"POST", "distrusted", "408, ok", nil, 408, gateway, 1, 0},
		{"POST", "distrusted", "425, ok", nil, 425, gateway, 1, 0},
		{"POST", "distrusted", "429 executed, ok", nil, 429, gateway, 1, 1},
		{"PUT", "distrusted", "408, 425, ok", nil, 200, success, 3, 1},
		{"PUT", "distrusted", "425", nil, 425, denied("max_attempts", "UNKNOWN", "3"), 3, 0},

		// Registered as passing trouble: retried where twice does no harm.
		{"PUT", "transient", "500, 520, ok", nil, 200, success, 3, 3},
		{"GET", "transient", "500, ok", nil, 200, success, 2, 2},
		{"POST", "transient", "500, ok", nil, 500, denied("status_not_retryable", "UNKNOWN", "1"), 1, 1},
		{"PUT", "transient", "501, ok", nil, 501, denied("status_not_retryable", "UNKNOWN", "1"), 1, 1},
		{"PUT", "app", "500, ok", nil, 500, denied("status_not_retryable", "UNKNOWN", "1"), 1, 1},

		{"POST", "app", "421, ok", nil, 421, denied("status_not_retryable", "NOT_EXECUTED", "1"), 1, 0},
		{"GET", "app", "421, ok", nil, 421, denied("status_not_retryable", "NOT_EXECUTED", "1"), 1, 0},
		// No source of credentials: the client's own token was refused.
		{"GET", "app", "401, ok", []string{"authorization: Bearer t"}, 401, denied("credential_not_ours", "NOT_EXECUTED", "1"), 1, 0},
		// After an attempt that may have been executed a refusal does not settle the outcome.
		{"PUT", "app", "reset, 404", nil, 404, denied("status_not_retryable", "UNKNOWN", "2"), 2, 2},
		{"PUT", "app", "reset, 401", nil, 401, denied("credential_not_ours", "UNKNOWN", "2"), 2, 1},
		{"POST", "app", "429, 503", nil, 503, stack.Report{Verdict: "ambiguous", Reason: "gateway_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "2"}, 2, 1},
		{"POST", "app", "429, 404", nil, 404, denied("status_not_retryable", "EXECUTED", "2"), 2, 1},
	} {
		name := test.method + " " + test.host + " " + test.fault
		if test.header != nil {
			name += " " + test.header[0]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stack.Request{Method: test.method, Host: test.host + ".example", Fault: test.fault, Header: test.header}
			if test.method != "GET" {
				r.Body = "pay"
			}
			a := s.Do(r)
			if a.Status != test.status {
				t.Errorf("status %d, want %d", a.Status, test.status)
			}
			wantReport(t, a, test.want)
			wantHits(t, s, a, test.hits, test.effects)
			wantNothingInternal(t, a)
		})
	}
}
