package integration

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/verdictproxy/verdict/test/stack"
)

// problem is the body of an uncertain outcome, RFC 9457 with what the caller needs to reconcile.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	CaseID    string `json:"case_id"`
	RequestID string `json:"request_id"`
	Verdict   string `json:"verdict"`
	Reason    string `json:"reason"`
	Evidence  string `json:"evidence"`
	Execution string `json:"execution"`
	Cause     string `json:"cause"`
	Upstream  string `json:"upstream"`
	Operation string `json:"operation"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Attempts  int    `json:"attempts"`
	Key       string `json:"idempotency_key"`
}

const reportConfig = `
defaults: {backoff: {base: 0.001s, max: 0.002s}}
upstreams:
- clusters: [app, short]
  operations:
  - {name: payments, route_operation: payments, idempotency: non_idempotent}
  - {pattern: HEAD /counted, idempotency: non_idempotent}
- {clusters: [last-attempt], policy: {max_attempts: 1}}
- {clusters: [no-budget], policy: {budget: {ratio: 0, min_retries_per_second: 0}}}
- {clusters: [conflict], policy: {ambiguous_status: 599}}
`

// An outcome that may hide a side effect is never reported as a plain failure, whatever the verdict's
// word: the caller gets all that it takes to find out.
func TestEvidenceUncertainOutcome(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: reportConfig, Patches: []stack.Patch{stack.LabClusters(),
		stack.NewPatch("clusters with other policies", upstreamLike("last-attempt", "", ""), upstreamLike("no-budget", "", ""), upstreamLike("conflict", "", ""))}})
	const (
		termination = "upstream_reset_before_response_started{connection_termination}"
		protocol    = "upstream_reset_before_response_started{protocol_error}"
	)
	pay := func(fault string) stack.Request {
		return stack.Request{Method: "POST", Target: "/payments/7?a=b", Fault: fault, Body: "10 EUR", Header: []string{"idempotency-key: k-7"}}
	}
	at := func(host string, r stack.Request) stack.Request { r.Host = host + ".example"; return r }
	put := stack.Request{Method: "PUT", Target: "/a", Fault: "reset", Body: "10 EUR"}
	large := pay("reset")
	large.Body = strings.Repeat("x", 1<<20+1)
	ambiguous := problem{Verdict: "ambiguous", Reason: "sent_no_response", Upstream: "app", Operation: "payments", Attempts: 1, Cause: termination}
	with := func(p problem, change func(*problem)) problem { change(&p); return p }
	for _, test := range []struct {
		name       string
		request    stack.Request
		status     int
		hits, done int
		want       problem
	}{
		{"reset", pay("reset"), 503, 1, 1, ambiguous},
		{"response timeout", at("short", pay("stuck")), 504, 1, 1,
			with(ambiguous, func(p *problem) { p.Cause, p.Upstream, p.Operation = "response_timeout", "short", "" })},
		{"garbage", pay("garbage"), 502, 1, 1, with(ambiguous, func(p *problem) { p.Cause = protocol })},
		{"half a header", pay("half-header"), 502, 1, 1, with(ambiguous, func(p *problem) { p.Cause = protocol })},
		{"last attempt", at("last-attempt", pay("reset")), 503, 1, 1,
			with(ambiguous, func(p *problem) {
				p.Verdict, p.Reason, p.Upstream, p.Operation = "denied", "max_attempts", "last-attempt", ""
			})},
		{"empty budget", at("no-budget", pay("reset")), 503, 1, 1,
			with(ambiguous, func(p *problem) {
				p.Verdict, p.Reason, p.Upstream, p.Operation = "denied", "budget_exhausted", "no-budget", ""
			})},
		{"body beyond the replay limit", large, 503, 1, 1,
			with(ambiguous, func(p *problem) { p.Verdict, p.Reason = "denied", "body_not_replayable" })},
		{"PUT three times", put, 503, 3, 3,
			with(ambiguous, func(p *problem) { p.Verdict, p.Reason, p.Operation, p.Attempts = "denied", "max_attempts", "", 3 })},
		{"a status of the operator's choice", at("conflict", pay("reset")), 599, 1, 1,
			with(ambiguous, func(p *problem) { p.Upstream, p.Operation = "conflict", "" })},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := s.Do(test.request)
			report := a.Report()
			if a.Status != test.status || a.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("status %d, content-type %q", a.Status, a.Header.Get("Content-Type"))
			}
			var got problem
			if err := json.Unmarshal([]byte(a.Body), &got); err != nil {
				t.Fatalf("%v: %q", err, a.Body)
			}
			want := test.want
			want.Type, want.Title, want.Detail = got.Type, got.Title, got.Detail
			want.CaseID, want.RequestID = report.AmbiguityID, report.RequestID
			want.Evidence, want.Execution = "SENT_NO_RESPONSE", "UNKNOWN"
			want.Method, want.Path = test.request.Method, test.request.Target
			if len(test.request.Header) > 0 {
				want.Key = "k-7"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
			if got.CaseID == "" || got.RequestID == "" || got.Type == "" || got.Title == "" || got.Detail == "" {
				t.Errorf("empty fields: %+v", got)
			}
			wantReport(t, a, stack.Report{Verdict: got.Verdict, Reason: got.Reason, Evidence: got.Evidence, Execution: got.Execution, Attempts: report.Attempts})
			wantHits(t, s, a, test.hits, test.done)
			wantNothingInternal(t, a)
			if log := s.ServiceLog(0); !strings.Contains(log, "uncertain outcome") || !strings.Contains(log, "case="+got.CaseID) {
				t.Errorf("the log does not tell of case %s", got.CaseID)
			}
		})
	}

	// Their bodies are not ours to write: the report is in the headers.
	unwritten := stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
	for _, test := range []struct {
		name    string
		request stack.Request
		status  int
		grpc    string
	}{
		{"gRPC", stack.Request{Method: "POST", Target: "/pay.Service/Pay", Fault: "reset", Body: "pay", Header: []string{"content-type: application/grpc", "te: trailers"}}, 200, "14"},
		{"HEAD", stack.Request{Method: "HEAD", Target: "/counted", Fault: "reset"}, 503, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := s.Do(test.request)
			if a.Status != test.status || a.Header.Get("Grpc-Status") != test.grpc {
				t.Errorf("status %d, grpc-status %q", a.Status, a.Header.Get("Grpc-Status"))
			}
			if a.Body != "" || a.Header.Get("Content-Type") == "application/problem+json" {
				t.Errorf("content-type %q, body %q", a.Header.Get("Content-Type"), a.Body)
			}
			wantReport(t, a, unwritten)
			if a.Report().AmbiguityID == "" {
				t.Error("no x-retry-ambiguity-id")
			}
			wantHits(t, s, a, 1, 1)
		})
	}
}

// While it drains, a process still says what is known, waits that fit go on, and nothing new is retried.
func TestEvidenceUncertainOutcomeWhileDraining(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{ExtprocArgs: []string{"--drain-time", "6s"}, Patches: []stack.Patch{
		stack.NewPatch("Envoy does not notice the draining", stack.Set(stack.Cluster("verdict")+"/health_checks/0/interval", "60s"),
			stack.Set(stack.Cluster("verdict")+"/health_checks/0/no_traffic_interval", "60s")),
	}})
	// Two waits begin before the draining: one fits into the drain time, and keeps the process alive.
	fits, tooLong := make(chan stack.Answer, 1), make(chan stack.Answer, 1)
	for wait, fault := range map[chan stack.Answer]string{fits: "429 retry-after=4, ok", tooLong: "429 retry-after=9, ok"} {
		go func() {
			a, err := s.Try(context.Background(), stack.Request{Method: "POST", Fault: fault, Body: "pay"})
			if err != nil {
				t.Error(err)
			}
			wait <- a
		}()
	}
	waitFor(t, "two answers are held", func() bool { return s.ServiceMetric(0, "verdict_waiting") == 2 })
	s.TerminateService(0)

	a := <-tooLong
	if a.Status != 429 || a.Elapsed > 8*time.Second {
		t.Errorf("the wait that does not fit: status %d after %v", a.Status, a.Elapsed)
	}
	wantReport(t, a, stack.Report{Verdict: "denied", Reason: "runtime_draining", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"})
	wantHits(t, s, a, 1, 0)

	a = s.Do(stack.Request{Method: "POST", Fault: "reset", Body: "pay"})
	wantReport(t, a, stack.Report{Verdict: "denied", Reason: "runtime_draining", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
	if a.Report().AmbiguityID == "" || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("not reported as uncertain: %+v", a)
	}
	wantHits(t, s, a, 1, 1)

	a = s.Do(stack.Request{Fault: "reset, ok"})
	wantReport(t, a, stack.Report{Verdict: "denied", Reason: "runtime_draining", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
	wantHits(t, s, a, 1, 1)

	if a = <-fits; a.Status != 200 || a.Elapsed < 4*time.Second {
		t.Errorf("the wait that fits: status %d after %v", a.Status, a.Elapsed)
	}
	wantHits(t, s, a, 2, 1)
	if code := s.WaitServiceExit(0, 20*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
