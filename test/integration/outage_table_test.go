package integration

import (
	"io"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// envoysWord is what Envoy says by itself of a failure that nobody has judged and that may hide a side effect.
var envoysWord = stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}

// outageRow is a request and what its user sees while Verdict is out of order.
type outageRow struct {
	name    string
	request stack.Request
	status  int
	grpc    string
	// own: the answer is the upstream's own, 300 bytes and a header of its own.
	own bool
	// labelled by Envoy; the others carry no report.
	labelled bool
	hits     int
	answer   stack.Answer
}

const own = " body=300 header:x-own=1"

func outageRows(s *stack.Stack) []*outageRow {
	request := func(method, host, target, fault string) stack.Request {
		r := stack.Request{Method: method, Host: host + ".example", Target: target, Fault: fault}
		if method != "GET" && method != "HEAD" {
			r.Body = "pay"
		}
		return r
	}
	grpc := func(target, fault string) stack.Request {
		r := request("POST", "app", target, fault)
		r.Header = []string{"content-type: application/grpc", "te: trailers"}
		return r
	}
	// The upload stops half-way, until the answer comes and the client leaves.
	stalled := request("POST", "app", "/", "ok")
	stalled.Upload = func(w io.Writer) (err error) {
		for err == nil {
			_, err = io.WriteString(w, "pay")
			time.Sleep(100 * time.Millisecond)
		}
		return err
	}
	stalled.Body = ""
	return []*outageRow{
		{name: "GET 200", request: request("GET", "app", "/", "ok"+own), status: 200, own: true, hits: 1},
		{name: "POST 200", request: request("POST", "app", "/", "ok"+own), status: 200, own: true, hits: 1},
		{name: "POST 404", request: request("POST", "app", "/", "404"+own), status: 404, own: true, hits: 1},
		{name: "POST 408", request: request("POST", "app", "/", "408"+own), status: 408, own: true, hits: 1},
		{name: "POST 429", request: request("POST", "app", "/", "429 retry-after=1"+own), status: 429, own: true, hits: 1},
		{name: "POST 500", request: request("POST", "app", "/", "500"+own), status: 500, own: true, hits: 1},
		{name: "POST 500, h2", request: request("POST", "h2", "/", "500"+own), status: 500, own: true, hits: 1},
		{name: "GET 503", request: request("GET", "app", "/", "503"+own), status: 503, own: true, hits: 1},
		{name: "POST 503", request: request("POST", "app", "/", "503"+own), status: 503, own: true, labelled: true, hits: 1},
		{name: "POST 503, h2", request: request("POST", "h2", "/", "503"+own), status: 503, own: true, labelled: true, hits: 1},
		{name: "PUT 502", request: request("PUT", "app", "/", "502"+own), status: 502, own: true, labelled: true, hits: 1},
		{name: "POST 600", request: request("POST", "app", "/", "600"+own), status: 600, own: true, labelled: true, hits: 1},
		{name: "POST 999, h2", request: request("POST", "h2", "/", "999"+own), status: 999, own: true, labelled: true, hits: 1},
		{name: "DELETE 504", request: request("DELETE", "app", "/", "504"+own), status: 504, own: true, labelled: true, hits: 1},

		{name: "GET reset", request: request("GET", "app", "/", "reset"), status: 503, hits: 1},
		{name: "POST reset", request: request("POST", "app", "/", "reset"), status: 503, labelled: true, hits: 1},
		{name: "POST garbage", request: request("POST", "app", "/", "garbage"), status: 502, labelled: true, hits: 1},
		{name: "POST timeout", request: request("POST", "short", "/", "stuck"), status: 504, labelled: true, hits: 1},
		{name: "GET timeout", request: request("GET", "short", "/", "stuck"), status: 504, hits: 1},
		{name: "POST deadline", request: request("POST", "app", "/in-300ms", "stuck"), status: 504, labelled: true, hits: 1},
		{name: "POST to a closed port", request: request("POST", "closed", "/", ""), status: 503, labelled: true},
		{name: "POST without a route", request: request("POST", "no-route", "/", ""), status: 404},
		{name: "POST answered 500 by Envoy", request: request("POST", "direct-500", "/", ""), status: 500, labelled: true},
		{name: "GET answered 500 by Envoy", request: request("GET", "direct-500", "/", ""), status: 500},
		{name: "POST answered 408 by Envoy", request: stalled, status: 408, labelled: true, hits: 1},

		{name: "gRPC 14 of the upstream", request: grpc("/", "grpc:14 header:x-own=1"), status: 200, grpc: "14", hits: 1},
		{name: "gRPC reset", request: grpc("/", "reset"), status: 200, grpc: "14", labelled: true, hits: 1},
		{name: "gRPC deadline", request: grpc("/in-300ms", "stuck"), status: 200, grpc: "14", labelled: true, hits: 1},
	}
}

var outagePatches = []stack.Patch{stack.LabClusters(), stack.NewPatch("answers of Envoy's own",
	stack.AddUpstream("direct-500", "", "", `{direct_response: {status: 500, body: {inline_string: direct}}}`),
	outerRoute("/in-300ms", "0.3s"), stack.Set(stack.HCM("outer")+"/request_timeout", "1.5s"))}

// Verdict killed, hung or slow, noticed by Envoy or not: users' traffic flows, every answer is the one
// that the upstream or Envoy gave, nothing is retried, and Envoy says by itself what is uncertain.
func TestOutageTable(t *testing.T) {
	t.Parallel()
	link := &slowLink{}
	for _, outage := range []struct {
		name    string
		patches []stack.Patch
		disturb func(*stack.Stack)
		// asked: Envoy asks Verdict all the same, and waits for a message timeout.
		asked bool
	}{
		{"killed", nil, func(s *stack.Stack) { s.KillService(0) }, false},
		{"killed, and Envoy knows", nil, func(s *stack.Stack) { s.KillService(0); s.WaitHealthy(0) }, false},
		{"hung", []stack.Patch{unwatched}, func(s *stack.Stack) { s.StopService(0) }, true},
		{"hung, and Envoy knows", nil, func(s *stack.Stack) { s.StopService(0); s.WaitHealthy(0) }, false},
		{"slow", []stack.Patch{unwatched, link.patch(t)}, func(*stack.Stack) { link.delay.Store(int64(time.Second)) }, true},
	} {
		t.Run(outage.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Patches: append(outage.patches, outagePatches...)})
			if a := s.Do(getting("503, ok")); a.Status != 200 {
				t.Fatalf("before the outage: status %d", a.Status)
			}
			outage.disturb(s)
			rows := outageRows(s)
			together(rows, func(row *outageRow) { row.answer = s.Do(row.request) })
			for _, row := range rows {
				t.Run(row.name, func(t *testing.T) { row.check(t, s) })
			}
			for _, listener := range []string{"outer", "attempts"} {
				if n := s.ExtProcStat(listener, "message_timeouts"); (n > 0) != outage.asked {
					t.Errorf("%s: %d message timeouts", listener, n)
				}
			}
			if n := s.ClusterStat("attempts", "upstream_rq_retry"); n != 1 {
				t.Errorf("%d retries, want the one before the outage", n)
			}
		})
	}
}

func (row *outageRow) check(t *testing.T, s *stack.Stack) {
	a := row.answer
	if a.Status != row.status || a.Header.Get("Grpc-Status") != row.grpc {
		t.Errorf("status %d, grpc-status %q, want %d, %q", a.Status, a.Header.Get("Grpc-Status"), row.status, row.grpc)
	}
	if row.own && (a.Body != string(upstream.Body(300)) || a.Header.Get("X-Own") != "1" || a.Header.Get("Content-Length") != "300" || a.Header.Get("Content-Type") != "text/plain") {
		t.Errorf("not the upstream's answer: %v %q", a.Header, a.Body)
	}
	want := stack.Report{}
	if row.labelled {
		want = envoysWord
	}
	wantReport(t, a, want)
	if report := a.Report(); (report.AmbiguityID != "") != row.labelled || row.labelled && report.RequestID == "" {
		t.Errorf("x-retry-ambiguity-id %q, x-request-id %q", report.AmbiguityID, report.RequestID)
	}
	if hits := len(s.Upstream.Hits(a.ID)); hits != row.hits {
		t.Errorf("%d hits, want %d", hits, row.hits)
	}
	wantNothingInternal(t, a)
}
