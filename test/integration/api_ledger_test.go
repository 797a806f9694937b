package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

const payments = `
upstreams:
- clusters: [app]
  policy: {backoff: {base: 0.001s, max: 0.002s}}
  operations: [{name: charge, pattern: "POST /charge", idempotency: idempotent_with_key}]
`

// What Envoy's client is told to reconcile is in the ledger, with what that takes, and nothing else is.
func TestAPILedgerBehindEnvoy(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: payments})
	server := "--server=" + strings.TrimPrefix(s.ServiceAdminURL(0), "http://")

	s.Do(stack.Request{Fault: "status:503"})                                                              // safe
	s.Do(stack.Request{Method: "POST", Fault: "status:404", Body: "pay"})                                 // certain
	retried := s.Do(stack.Request{Method: "POST", Fault: "429, ok", Body: "pay"})                         // ends well
	open := s.Do(stack.Request{Method: "POST", Target: "/charge?to=1", Fault: "reset", Body: "pay"})      // no key
	denied := s.Do(stack.Request{Method: "PUT", Target: "/doc", Fault: "reset, reset, reset", Body: "d"}) // max_attempts
	if retried.Status != 200 {
		t.Errorf("status %d", retried.Status)
	}
	listed := wantOutput(t, true, nil, extproc, "ledger", "list", server)
	lines := strings.Split(strings.TrimSpace(listed), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], denied.Report().AmbiguityID) || !strings.Contains(lines[1], open.Report().AmbiguityID) {
		t.Fatalf("want %s and %s in\n%s", denied.Report().AmbiguityID, open.Report().AmbiguityID, listed)
	}
	wantOutput(t, true, []string{
		`"state":"CASE_STATE_OPEN"`, `"upstream":"app"`, `"operation":"charge"`, `"method":"POST"`, `"path":"/charge?to=1"`,
		`"attempts":1`, `"EVIDENCE_SENT_NO_RESPONSE"`, `"VERDICT_AMBIGUOUS"`, `"REASON_SENT_NO_RESPONSE"`,
		`"cause":"upstream_reset_before_response_started{connection_termination}"`,
		`"facts":{"upstream":"app"`, `"idempotency":"IDEMPOTENCY_NON_IDEMPOTENT"`, `"kind":"BODY_KIND_BYTES"`, `"remaining":"`,
		`{"number":8,"name":"possibly_executed","verdict":"VERDICT_AMBIGUOUS","reason":"REASON_SENT_NO_RESPONSE"}`,
	}, extproc, "ledger", "get", open.Report().AmbiguityID, server)
	wantOutput(t, true, []string{`"attempts":3`, `"REASON_MAX_ATTEMPTS"`}, extproc, "ledger", "get", denied.Report().AmbiguityID, server)

	wantOutput(t, true, []string{`"CASE_STATE_NOT_EXECUTED"`, `"note":"asked the bank"`},
		extproc, "ledger", "resolve", open.Report().AmbiguityID, "not_executed", "--note=asked the bank", server)
	if out := wantOutput(t, true, []string{denied.Report().AmbiguityID}, extproc, "ledger", "list", "--state=open", server); strings.Contains(out, open.Report().AmbiguityID) {
		t.Errorf("resolved, and open:\n%s", out)
	}
	wantOutput(t, false, []string{"NotFound"}, extproc, "ledger", "get", "no-such-case", server)
}

// An answer that was cut off has left without a label: only the ledger knows.
func TestAPILedgerHasCutOffAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: payments})
	server := "--server=" + strings.TrimPrefix(s.ServiceAdminURL(0), "http://")
	for _, method := range []string{"GET", "POST"} {
		if _, err := s.Try(t.Context(), stack.Request{Method: method, Target: "/cut", Fault: "half-body:200 body=200000", Body: "pay"}); err == nil {
			t.Errorf("%s: the answer came whole", method)
		}
	}
	var out string
	for end := time.Now().Add(20 * time.Second); !strings.Contains(out, "EVIDENCE_PARTIAL_RESPONSE"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing entered:\n%s", s.ServiceLog(0))
		}
		out = wantOutput(t, true, nil, extproc, "ledger", "list", server)
	}
	for _, want := range []string{`"method":"POST"`, `"path":"/cut"`, `"REASON_RESPONSE_ALREADY_DELIVERED"`} {
		if !strings.Contains(out, want) || strings.Contains(out, `"method":"GET"`) {
			t.Errorf("no %s, or a GET, in\n%s", want, out)
		}
	}
}

// A drained upstream, and the kill switch, need no change in Envoy.
func TestAPIDrainBehindEnvoy(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: payments})
	server := "--server=" + strings.TrimPrefix(s.ServiceAdminURL(0), "http://")
	wantRetry := func(step string, retries bool) {
		t.Helper()
		a := s.Do(stack.Request{Method: "POST", Fault: "429, ok", Body: "pay"})
		if retries && a.Status != 200 || !retries && (a.Status != 429 || a.Report().Reason != "runtime_draining" || a.Report().Execution != "NOT_EXECUTED") {
			t.Errorf("%s: status %d, %+v", step, a.Status, a.Report())
		}
	}
	wantRetry("at first", true)
	for _, step := range []struct {
		args    []string
		retries bool
	}{
		{[]string{"drain", "app"}, false},
		{[]string{"undrain", "app"}, true},
		{[]string{"drain", "other"}, true},
		{[]string{"drain", "--all"}, false},
		{[]string{"undrain", "--all"}, true},
	} {
		wantOutput(t, true, nil, extproc, append(step.args, server)...)
		wantRetry(strings.Join(step.args, " "), step.retries)
	}
}

// A retry that waits when the switch is thrown is not said any more.
func TestAPIDrainDuringAWait(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: payments})
	answered := make(chan stack.Answer, 1)
	id := s.NewID()
	go func() {
		a, err := s.Try(context.Background(), stack.Request{Method: "POST", ID: id, Fault: "429 retry-after=3, ok", Body: "pay"})
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	waitFor(t, "the wait to begin", func() bool { return s.ServiceMetric(0, "verdict_waiting") == 1 })
	wantOutput(t, true, nil, extproc, "drain", "--all", "--server="+strings.TrimPrefix(s.ServiceAdminURL(0), "http://"))
	a := <-answered
	if a.Status != 429 || a.Report().Reason != "runtime_draining" || a.Report().Execution != "NOT_EXECUTED" {
		t.Errorf("status %d, %+v", a.Status, a.Report())
	}
	wantHits(t, s, a, 1, 0)
}

// Whoever has the request id of an answer can ask why the request was not sent again.
func TestAPIWhyBehindEnvoy(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: payments})
	server := "--server=" + strings.TrimPrefix(s.ServiceAdminURL(0), "http://")
	a := s.Do(stack.Request{Method: "POST", Target: "/pay", Fault: "429, reset", Body: "pay"})
	if a.Report().AmbiguityID == "" || a.Report().RequestID == "" {
		t.Fatalf("%+v", a.Report())
	}
	for _, id := range []string{a.Report().RequestID, a.Report().AmbiguityID} {
		wantOutput(t, true, []string{
			"attempt 1: retry, by rule 9, wait ", "evidence response_received, execution not_executed, certain",
			"attempt 2: ambiguous(sent_no_response), by rule 8", "evidence sent_no_response, execution unknown, uncertain",
			`POST /pay to "app"`, "upstream_reset_before_response_started{connection_termination}", "case " + a.Report().AmbiguityID,
		}, extproc, "why", id, server)
	}
}
