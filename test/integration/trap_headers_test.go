package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// Envoy turns an answer whose headers exceed a limit after ext_proc has added its own into a 500, fail-open
// or not. The limit of the upstream clusters is 200 lines and 60 KiB here.
func TestTrapHeaderLimit(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{})
	for _, n := range []int{95, 120, 180} {
		nearLimit(t, s, n, "as always", 200, gatewayReport)
	}
	for _, n := range []int{190, 195} {
		// No room for the judge's words: the finalizer's hop has some.
		nearLimit(t, s, n, "labelled by the finalizer", 503, gatewayReport)
	}
	t.Run("210, more than the cluster accepts", func(t *testing.T) {
		t.Parallel()
		a := s.Do(stack.Request{Method: "POST", Fault: "503 headers=210", Body: "pay"})
		if a.Status != 502 || a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("status %d, content-type %q", a.Status, a.Header.Get("Content-Type"))
		}
		wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
		wantHits(t, s, a, 1, 1)
	})

	for _, test := range []struct {
		size int
		post stack.Report
		get  int // the status that a GET ends with: retried or not
	}{
		{57_000, gatewayReport, 200},
		{59_500, gatewayReport, 200},
		// No room for a word of Verdict's: Envoy's own label is left.
		{60_500, finalized, 503},
		{61_000, finalized, 503},
	} {
		t.Run(fmt.Sprintf("%d bytes", test.size), func(t *testing.T) {
			t.Parallel()
			fault := "503 header:x-pad=" + strings.Repeat("x", test.size)
			wantUpstreams(t, s, s.Do(stack.Request{Method: "POST", Fault: fault, Body: "pay"}), test.post)
			a := s.Do(stack.Request{Fault: fault + ", ok"})
			if a.Status != test.get {
				t.Errorf("GET: status %d, want %d", a.Status, test.get)
			}
			wantReport(t, a, stack.Report{})
		})
	}

	t.Run("a request with 170 headers", func(t *testing.T) {
		t.Parallel()
		a := s.Do(stack.Request{Header: manyHeaders(170), Fault: "503, ok"})
		if a.Status != 200 {
			t.Errorf("status %d: %s", a.Status, a.Body)
		}
		wantHits(t, s, a, 2, 2)
	})
}

var gatewayReport = stack.Report{Verdict: "ambiguous", Reason: "gateway_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"}

// nearLimit asks for answers with n headers. A POST gets the upstream's 503 with the report; a GET gets
// a status that shows whether it was retried; a healthy answer passes.
func nearLimit(t *testing.T, s *stack.Stack, n int, name string, get int, report stack.Report) {
	t.Run(fmt.Sprintf("%d, %s", n, name), func(t *testing.T) {
		t.Parallel()
		wantUpstreams(t, s, s.Do(stack.Request{Method: "POST", Fault: fmt.Sprintf("503 headers=%d", n), Body: "pay"}), report)
		a := s.Do(stack.Request{Fault: fmt.Sprintf("503 headers=%d, ok headers=%d", n, n)})
		if a.Status != get {
			t.Errorf("GET: status %d, want %d", a.Status, get)
		}
		if get == 503 {
			wantReport(t, a, stack.Report{Verdict: "denied", Reason: "retry_not_executed", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"})
		}
		if got := len(a.HeadersWith("x-extra-")); got != n {
			t.Errorf("GET: %d of %d headers", got, n)
		}
		wantNothingInternal(t, a)
		if a := s.Do(stack.Request{Fault: fmt.Sprintf("ok headers=%d", n)}); a.Status != 200 || len(a.HeadersWith("x-extra-")) != n {
			t.Errorf("a healthy answer: status %d, %d headers", a.Status, len(a.HeadersWith("x-extra-")))
		}
	})
}

// wantUpstreams checks that the answer is the upstream's own 503, with a report.
func wantUpstreams(t *testing.T, s *stack.Stack, a stack.Answer, report stack.Report) {
	t.Helper()
	if a.Status != 503 || a.Body != "503 Service Unavailable\n" {
		t.Errorf("status %d: %s", a.Status, a.Body)
	}
	wantReport(t, a, report)
	wantHits(t, s, a, 1, 1)
	wantNothingInternal(t, a)
}

func manyHeaders(n int) []string {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("x-many-%d: v", i))
	}
	return lines
}

var (
	hundredHeaders = stack.NewPatch("an upstream cluster with Envoy's limit of 100 headers",
		stack.Remove(stack.HTTPOptions("app")+"/common_http_protocol_options"))
	hundredBack = stack.NewPatch("no max_headers_count on the way back", stack.Remove(stack.HTTPOptions("attempts")+"/common_http_protocol_options"))
	hundredIn   = stack.NewPatch("no max_headers_count on the way in", stack.Remove(stack.HCM("attempts")+"/common_http_protocol_options"))
	saidHundred = stack.NewPatch("which the judge is told", judgeMetadata("x-verdict-max-headers", "100"))
)

// An upstream cluster with Envoy's own limit works too, if the judge is told of it.
func TestTrapHeaderLimitOfHundred(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{hundredHeaders, saidHundred}})
	for _, n := range []int{60, 80} {
		nearLimit(t, s, n, "as always", 200, gatewayReport)
	}
	for _, n := range []int{90, 95} {
		nearLimit(t, s, n, "labelled by the finalizer", 503, gatewayReport)
	}
}

func TestTrapHeaderLimitBite(t *testing.T) {
	t.Parallel()
	t.Run("the judge is told of more headers than the cluster accepts", func(t *testing.T) {
		t.Parallel()
		s := startTrap(t, stack.Options{Patches: []stack.Patch{hundredHeaders}})
		a := s.Do(stack.Request{Method: "POST", Fault: "503 headers=95", Body: "pay"})
		if a.Status != 500 || a.HeadersWith("x-extra-") != nil {
			t.Errorf("status %d: the answer has not become a 500", a.Status)
		}
		if n := s.ExtProcStat("attempts", "rejected_header_mutations"); n != 1 {
			t.Errorf("%d header mutations rejected, want 1", n)
		}
		// Even so it is not taken for a plain failure.
		wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
	})
	t.Run("the cluster attempts has Envoy's limit", func(t *testing.T) {
		t.Parallel()
		s := startTrap(t, stack.Options{Patches: []stack.Patch{hundredBack}})
		if a := s.Do(stack.Request{Fault: "ok headers=97"}); a.Status != 502 {
			t.Errorf("status %d: a healthy answer with 97 headers has passed", a.Status)
		}
		if a := s.Do(stack.Request{Fault: "404 headers=90"}); a.Status != 502 {
			t.Errorf("status %d: a failing answer with 90 headers has passed", a.Status)
		}
	})
	t.Run("the inner hop has Envoy's limit", func(t *testing.T) {
		t.Parallel()
		s := startTrap(t, stack.Options{Patches: []stack.Patch{hundredIn}})
		a := s.Do(stack.Request{Header: manyHeaders(93)})
		if a.Status != 503 {
			t.Errorf("status %d: a request with 93 headers has passed", a.Status)
		}
		wantHits(t, s, a, 0, 0)
	})
}

// judgeMetadata changes an entry of the judge's stream metadata.
func judgeMetadata(key, value string) stack.Edit {
	return func(c *stack.Config) error {
		list := stack.DelegatedConfig("attempts", "judge") + "/grpc_service/initial_metadata"
		entries, err := c.Get(list)
		if err != nil {
			return err
		}
		for i, entry := range entries.([]any) {
			if entry.(map[string]any)["key"] == key {
				return stack.Set(fmt.Sprintf("%s/%d/value", list, i), fmt.Sprintf("%q", value))(c)
			}
		}
		return fmt.Errorf("%s: no %s", list, key)
	}
}
