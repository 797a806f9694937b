package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// oneToken has a budget of one retry in 10 s for each upstream.
const oneToken = `
defaults: {backoff: {base: 0.001s, max: 0.002s}, budget: {ratio: 0, min_retries_per_second: 0.1}}
`

// The judge has asked for the error body and the upstream cuts it: Envoy makes a 502 of it, past the judge.
// The finalizer labels that. No token was taken, since a judge takes one only when the body is there.
func TestTrapErrorBodyCut(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Config: oneToken, Patches: []stack.Patch{impatient}})
	for _, test := range []struct {
		method, fault string
		want          stack.Report
	}{
		{"POST", "half-body:429 hold=200ms, ok", finalized},
		{"POST", "half-body:429 hold=200ms chunked, ok", finalized},
		{"PUT", "half-body:503 hold=200ms, ok", finalizedSafe},
		{"GET", "half-body:503 hold=200ms, ok", finalizedSafe},
	} {
		t.Run(test.method+" "+test.fault, func(t *testing.T) {
			a := s.Do(stack.Request{Method: test.method, Fault: test.fault})
			if a.Status != 502 {
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
			wantReport(t, a, test.want)
			if uncertain := test.method != "GET"; (a.Report().AmbiguityID != "") != uncertain {
				t.Errorf("x-retry-ambiguity-id %q", a.Report().AmbiguityID)
			}
			if hits := s.Upstream.Hits(a.ID); len(hits) != 1 {
				t.Errorf("%d hits, want 1", len(hits))
			}
			wantNothingInternal(t, a)
		})
	}
	if n := s.ServiceMetric(0, "verdict_finalized_total"); n != 4 {
		t.Errorf("%v answers finalized, want 4", n)
	}
	t.Run("the token is still there", func(t *testing.T) {
		a := s.Do(stack.Request{Method: "POST", Fault: "429, ok"})
		wantHits(t, s, a, 2, 1)
		a = s.Do(stack.Request{Method: "POST", Fault: "429, ok"})
		wantHits(t, s, a, 1, 0)
		if reason := a.Report().Reason; reason != "budget_exhausted" {
			t.Errorf("reason %q: there was more than one token", reason)
		}
	})
	t.Run("a wait that a timeout ends on the way back returns its token", func(t *testing.T) {
		a := s.Do(stack.Request{Method: "POST", Host: "inner-idle.example", Fault: "429 retry-after=2, ok"})
		if a.Status != 504 {
			t.Errorf("status %d", a.Status)
		}
		wantHits(t, s, a, 1, 0)
		waitFor(t, "the wait is given up", func() bool { return s.ServiceMetric(0, "verdict_waits_abandoned_total") == 1 })
		a = s.Do(stack.Request{Method: "POST", Host: "inner-idle.example", Fault: "429, ok"})
		wantHits(t, s, a, 2, 1)
	})
}

// Without anybody behind the judge, what goes past it would look like a plain failure.
func TestTrapPastTheJudgeBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{impatient, nobodyLabels}})
	for _, r := range []stack.Request{
		{Method: "POST", Fault: "half-body:429 hold=200ms, ok"},
		{Method: "POST", Host: "early", Fault: "stuck", Body: "pay"},
		{Method: "POST", Host: "inner-idle", Fault: "429 retry-after=2, ok"},
	} {
		t.Run(r.Host+" "+r.Fault, func(t *testing.T) {
			if a := s.Do(on(r)); a.Status < 500 || len(a.HeadersWith("x-retry-")) > 0 {
				t.Errorf("status %d, report %+v: the trap does not bite", a.Status, a.Report())
			}
		})
	}
}

// counted declares a HEAD whose outcome can be uncertain.
const counted = `
upstreams:
- clusters: [app]
  operations: [{pattern: GET /counted, idempotency: non_idempotent}]
`

// headThenGet sends both on one connection, and returns the answers as far as they can be read.
func headThenGet(t *testing.T, s *stack.Stack) (head, get *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	answers := bufio.NewReader(conn)
	_, _ = fmt.Fprintf(conn, "HEAD /counted HTTP/1.1\r\nhost: app.example\r\nx-test-id: %s\r\nx-fault: reset\r\n\r\n", s.NewID())
	if head, err = http.ReadResponse(answers, &http.Request{Method: http.MethodHead}); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nhost: app.example\r\nx-test-id: %s\r\n\r\n", s.NewID())
	if get, err = http.ReadResponse(answers, &http.Request{Method: http.MethodGet}); err != nil {
		return head, nil
	}
	_, _ = io.Copy(io.Discard, get.Body)
	return head, get
}

var (
	limited   = stack.Request{Method: "POST", Fault: "429 header:x-envoy-ratelimited=true, ok"}
	expecting = stack.Request{Method: "POST", Fault: "429, ok", Header: []string{"expect: 100-continue"}, Body: "pay"}
)

func TestTrapAnswers(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Config: counted})
	// The answer to HEAD gets the report, and never a body.
	t.Run("HEAD", func(t *testing.T) {
		t.Parallel()
		head, get := headThenGet(t, s)
		if head.StatusCode != 503 || head.ContentLength <= 0 || head.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("HEAD: status %d, content-length %d, content-type %q", head.StatusCode, head.ContentLength, head.Header.Get("Content-Type"))
		}
		if head.Header.Get("X-Retry-Verdict") != "ambiguous" || head.Header.Get("X-Retry-Ambiguity-Id") == "" {
			t.Errorf("HEAD: %v", head.Header)
		}
		if get == nil || get.StatusCode != 200 {
			t.Errorf("GET on the same connection: %+v", get)
		}
	})
	// x-envoy-ratelimited makes router A refuse to retry; the judge takes it away when it says retry.
	t.Run("x-envoy-ratelimited", func(t *testing.T) {
		t.Parallel()
		a := s.Do(limited)
		if a.Status != 200 {
			t.Errorf("status %d", a.Status)
		}
		wantHits(t, s, a, 2, 1)
		a = s.Do(stack.Request{Method: "POST", Fault: "429 retry-after=60 header:x-envoy-ratelimited=true"})
		if a.Status != 429 || a.Header.Get("X-Envoy-Ratelimited") != "true" {
			t.Errorf("a final answer: status %d: %v", a.Status, a.Header)
		}
	})
	// A 100 that went through ends router A's retries; Envoy answers it by itself.
	t.Run("Expect: 100-continue", func(t *testing.T) {
		t.Parallel()
		a := s.Do(expecting)
		if a.Status != 200 || len(a.Interim) != 1 {
			t.Errorf("interim %v, status %d", a.Interim, a.Status)
		}
		wantHits(t, s, a, 2, 1)
	})
}

// A judge that took the HEAD for a GET would say of the answer what is not true of it, and where HTTP/2 is
// spoken between the hops it would break the client's connection.
func TestTrapHeadBite(t *testing.T) {
	t.Parallel()
	taken := factValue("x-verdict-method", "GET")
	for _, test := range []struct {
		patches []stack.Patch
		breaks  bool
	}{
		{[]stack.Patch{taken}, false},
		{[]stack.Patch{taken, http2Hops}, true},
	} {
		t.Run(test.patches[len(test.patches)-1].Name, func(t *testing.T) {
			t.Parallel()
			s := startTrap(t, stack.Options{Config: counted, Patches: test.patches})
			head, get := headThenGet(t, s)
			if head.StatusCode != 503 || head.ContentLength > 0 || head.Header.Get("Content-Type") != problemJSON {
				t.Errorf("HEAD: status %d, content-length %d, content-type %q: the trap does not bite", head.StatusCode, head.ContentLength, head.Header.Get("Content-Type"))
			}
			if (get == nil) != test.breaks {
				t.Errorf("GET on the same connection: %+v", get)
			}
		})
	}
}

var (
	noMutationRules = stack.NewPatch("the judge may not touch Envoy's headers", stack.Remove(stack.DelegatedConfig("attempts", "judge")+"/mutation_rules"))
	continueProxied = stack.NewPatch("the upstream's 100 goes through", stack.Set(stack.HCM("outer")+"/proxy_100_continue", "true"))
	nobodyLabels    = stack.NewPatch("nobody labels what went past the judge",
		stack.Remove(stack.HTTPFilter("outer", "unjudged")), stack.Remove(stack.HTTPFilter("outer", "finalizer")))
)

// routerARefused is what the judge says for the case that router A does not do what it was told.
var routerARefused = stack.Report{Verdict: "denied", Reason: "retry_not_executed", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"}

// What ends router A's retries costs a retry, and nothing else: the judge's answer says so.
func TestTrapRetryRefusedBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{noMutationRules, continueProxied}})
	for _, r := range []stack.Request{limited, expecting} {
		t.Run(r.Fault, func(t *testing.T) {
			a := s.Do(r)
			if a.Status != 429 {
				t.Errorf("status %d: the trap does not bite", a.Status)
			}
			wantHits(t, s, a, 1, 0)
			wantReport(t, a, routerARefused)
		})
	}
	t.Run("a reset after the 100", func(t *testing.T) {
		r := expecting
		r.Fault = "reset, ok"
		a := s.Do(r)
		wantHits(t, s, a, 1, 1)
		wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
	})
}
