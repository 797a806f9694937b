package integration

import (
	"io"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// impatient has hosts whose timeouts end a request past the judge: those of router A, and those of either
// hop that are shorter than a wait. request_timeout is for the arrival of the request only.
var impatient = stack.NewPatch("hosts with short timeouts",
	outerHost("early", `{timeout: 0.4s}`),
	upstreamLike("early", "", `{route: {cluster: early, timeout: 30s}}`),
	outerHost("equal", `{timeout: 0.4s}`),
	upstreamLike("equal", "", `{route: {cluster: equal, timeout: 0.4s}}`),
	upstreamLike("judged", "", `{route: {cluster: judged, timeout: 0.4s}}`),
	outerHost("outer-idle", `{idle_timeout: 0.4s}`),
	outerHost("outer-duration", `{max_stream_duration: {max_stream_duration: 0.4s}}`),
	upstreamLike("inner-idle", "", `{route: {cluster: inner-idle, timeout: 5s, idle_timeout: 0.4s}}`),
	upstreamLike("inner-duration", "", `{route: {cluster: inner-duration, timeout: 5s, max_stream_duration: {max_stream_duration: 0.4s}}}`),
	outerHost("endless", `{timeout: 0s}`),
	stack.Set(stack.HCM("outer")+"/request_timeout", "1.5s"))

var (
	finalized       = stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
	finalizedSafe   = stack.Report{Verdict: "denied", Reason: "retry_not_executed", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
	grpcHeader      = []string{"content-type: application/grpc", "te: trailers"}
	problemJSON     = "application/problem+json"
	grpcContentType = "application/grpc"
)

// What ends past the judge is labelled by the finalizer, is never retried, and is uncertain where the
// request may have had an effect.
func TestTrapTimeouts(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{impatient}})
	const retryLater = " retry-after=1, ok"
	tests := []struct {
		name        string
		request     stack.Request
		status      int
		grpc        string // grpc-status
		contentType string
		want        stack.Report
	}{
		// Router A's own timeout: an inner timeout that is no shorter never gets to speak.
		{"deadline, POST", stack.Request{Method: "POST", Host: "early", Fault: "stuck", Body: "pay"}, 504, "", problemJSON, finalized},
		{"deadline, GET", stack.Request{Host: "early", Fault: "stuck"}, 504, "", "text/plain", finalizedSafe},
		{"deadline, gRPC", stack.Request{Method: "POST", Host: "early", Fault: "stuck", Body: "pay", Header: grpcHeader}, 200, "14", grpcContentType, finalized},
		{"deadline and attempt equal, POST", stack.Request{Method: "POST", Host: "equal", Fault: "stuck", Body: "pay"}, 504, "", problemJSON, finalized},
		{"deadline and attempt equal, gRPC", stack.Request{Method: "POST", Host: "equal", Fault: "stuck", Body: "pay", Header: grpcHeader}, 200, "14", grpcContentType, finalized},
		{"attempt clearly shorter", stack.Request{Method: "POST", Host: "judged", Fault: "stuck", Body: "pay"}, 504, "", problemJSON,
			stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}},

		// The outer hop gives the upload up. The upstream has seen the request's head.
		{"request_timeout, POST", stack.Request{Method: "POST", Upload: trickling}, 408, "", problemJSON, finalized},
		{"request_timeout, PUT", stack.Request{Method: "PUT", Upload: trickling}, 408, "", problemJSON, finalizedSafe},
		{"request_timeout, gRPC", stack.Request{Method: "POST", Upload: trickling, Header: grpcHeader}, 200, "2", grpcContentType, finalized},
		{"idle upload, POST", stack.Request{Method: "POST", Host: "outer-idle", Upload: stopping}, 408, "", problemJSON, finalized},

		// Shorter than the wait.
		{"outer idle_timeout, GET", stack.Request{Host: "outer-idle", Fault: "503" + retryLater}, 504, "", "text/plain", finalizedSafe},
		{"outer idle_timeout, PUT", stack.Request{Method: "PUT", Host: "outer-idle", Fault: "503" + retryLater, Body: "pay"}, 504, "", problemJSON, finalizedSafe},
		{"outer max_stream_duration, GET", stack.Request{Host: "outer-duration", Fault: "503" + retryLater}, 504, "", "text/plain", finalizedSafe},
		{"outer max_stream_duration, POST", stack.Request{Method: "POST", Host: "outer-duration", Fault: "429" + retryLater, Body: "pay"}, 504, "", problemJSON, finalized},
		// Made on the way back, so that nobody knows whose answer it is, and the body is left alone.
		{"inner idle_timeout, GET", stack.Request{Host: "inner-idle", Fault: "503" + retryLater}, 504, "", "text/plain", finalizedSafe},
		{"inner idle_timeout, POST", stack.Request{Method: "POST", Host: "inner-idle", Fault: "429" + retryLater, Body: "pay"}, 504, "", "text/plain", finalized},
		{"inner max_stream_duration, GET", stack.Request{Host: "inner-duration", Fault: "503" + retryLater}, 504, "", "text/plain", finalizedSafe},
		{"inner max_stream_duration, PUT", stack.Request{Method: "PUT", Host: "inner-duration", Fault: "503" + retryLater, Body: "pay"}, 504, "", "text/plain", finalizedSafe},
	}
	var sent []<-chan result // all at once, since each waits
	for _, test := range tests {
		sent = append(sent, send(t, s, on(test.request)))
	}
	// With nothing shorter, and without any deadline, the same wait ends in a retry.
	unhurried := []string{"app", "endless"}
	var waited []<-chan result
	for _, host := range unhurried {
		waited = append(waited, send(t, s, on(stack.Request{Method: "POST", Host: host, Fault: "429" + retryLater, Body: "pay"})))
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := answered(t, sent[i])
			if got := a.Header.Get("Content-Type"); a.Status != test.status || a.Header.Get("Grpc-Status") != test.grpc || got != test.contentType {
				t.Errorf("status %d, grpc-status %q, content-type %q: %s", a.Status, a.Header.Get("Grpc-Status"), got, a.Body)
			}
			wantReport(t, a, test.want)
			if uncertain := test.request.Method != ""; (a.Report().AmbiguityID != "") != uncertain {
				t.Errorf("x-retry-ambiguity-id %q", a.Report().AmbiguityID)
			}
			if hits := s.Upstream.Hits(a.ID); len(hits) != 1 {
				t.Errorf("%d hits, want 1", len(hits))
			}
			wantNothingInternal(t, a)
		})
	}

	for i, host := range unhurried {
		t.Run("nothing shorter, "+host, func(t *testing.T) {
			a := answered(t, waited[i])
			if a.Status != 200 || a.Elapsed < time.Second {
				t.Errorf("status %d after %v", a.Status, a.Elapsed)
			}
			wantHits(t, s, a, 2, 1)
		})
	}
}

// on completes the name of the host.
func on(r stack.Request) stack.Request {
	if r.Host != "" {
		r.Host += ".example"
	}
	return r
}

// trickling never idles for long; stopping sends a byte and no more.
func trickling(w io.Writer) error {
	for range 100 {
		if _, err := w.Write([]byte("x")); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

func stopping(w io.Writer) error {
	_, err := w.Write([]byte("x"))
	time.Sleep(2 * time.Second)
	return err
}

// A finalizer that looks at 5xx only, and nobody behind it, would let a 408 and a gRPC failure pass for
// plain ones.
func TestTrapTimeoutsBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{impatient, stack.NewPatch("only 5xx are failures",
		stack.Remove(stack.HTTPFilter("outer", "unjudged")),
		stack.Set(stack.FilterConfig("outer", "finalizer")+"/xds_matcher/matcher_list/matchers/0/predicate",
			`{not_matcher: {single_predicate: {input: {name: h, typed_config: {"@type": type.googleapis.com/envoy.type.matcher.v3.HttpResponseHeaderMatchInput, header_name: ":status"}}, value_match: {safe_regex: {google_re2: {}, regex: "5.."}}}}}`))}})
	for _, test := range []struct {
		name    string
		request stack.Request
		status  int
	}{
		{"408", stack.Request{Method: "POST", Host: "outer-idle", Upload: stopping}, 408},
		{"gRPC", stack.Request{Method: "POST", Host: "early", Fault: "stuck", Body: "pay", Header: grpcHeader}, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := s.Do(on(test.request))
			if a.Status != test.status || a.Report().Verdict != "" {
				t.Errorf("status %d, report %+v: the trap does not bite", a.Status, a.Report())
			}
		})
	}
}
