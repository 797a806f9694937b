package integration

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// malformed are messages that HTTP/1.1 lets through, and HTTP/2 does not: the first hop passes them to the
// second on the connection that all requests share.
var malformed = []struct {
	name    string
	request stack.Request
	answer  string // of the upstream; "": it is not reached
}{
	{"a host with a user", stack.Request{Host: "a@b"}, ""},
	{"status 099", stack.Request{}, "HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n"},
	{"status 1000", stack.Request{}, "HTTP/1.1 1000 Odd\r\ncontent-length: 0\r\n\r\n"},
	{"an upgrade that nobody asked for", stack.Request{}, "HTTP/1.1 101 Switching Protocols\r\n\r\n"},
	{"TE in an answer", stack.Request{}, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nte: gzip\r\n\r\n"},
}

// sharedFate lets a POST run beside a malformed message, and returns what the two clients saw.
func sharedFate(t *testing.T, s *stack.Stack, m stack.Request) (innocent, odd stack.Answer) {
	t.Helper()
	done := make(chan stack.Answer, 1)
	id := s.NewID()
	go func() {
		a, err := s.Try(context.Background(), stack.Request{Method: "POST", ID: id, Fault: "ok delay=500ms", Body: "pay"})
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	if _, err := s.Upstream.WaitHits(t.Context(), id, 1); err != nil {
		t.Fatal(err)
	}
	odd = s.Do(m)
	return <-done, odd
}

// One malformed request, or one malformed answer, ends itself and nobody else, and its outcome is open.
func TestEvidenceMalformedMessageEndsItselfAlone(t *testing.T) {
	t.Parallel()
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Patches: []stack.Patch{rawUpstream(t, m.answer)}})
			r := oddPost(m.request)
			innocent, odd := sharedFate(t, s, r)
			if innocent.Status != 200 {
				t.Errorf("the POST beside it: status %d, %+v", innocent.Status, innocent.Report())
			}
			wantHits(t, s, innocent, 1, 1)
			if odd.Status != 502 {
				t.Errorf("status %d", odd.Status)
			}
			wantReport(t, odd, stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
			if odd.Report().AmbiguityID == "" {
				t.Error("no x-retry-ambiguity-id")
			}
		})
	}
}

// By Envoy's default it ends the connection, and with it the POST that the upstream has executed.
func TestEvidenceMalformedMessageWithoutTheCure(t *testing.T) {
	t.Parallel()
	const option = "/override_stream_error_on_invalid_http_message"
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			cure := stack.HTTPOptions("attempts") + "/explicit_http_config/http2_protocol_options" + option
			if m.answer == "" {
				cure = stack.HCM("attempts") + "/http2_protocol_options" + option
			}
			s := start(t, stack.Options{Patches: []stack.Patch{rawUpstream(t, m.answer), stack.NewPatch("Envoy's default", stack.Remove(cure))}})
			innocent, _ := sharedFate(t, s, oddPost(m.request))
			if innocent.Status == 200 {
				t.Error("the POST beside it was answered")
			}
			wantReport(t, innocent, stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
			wantHits(t, s, innocent, 1, 1)
		})
	}
}

func oddPost(r stack.Request) stack.Request {
	r.Method, r.Body = "POST", "pay"
	if r.Host == "" {
		r.Host = "raw.example"
	}
	return r
}

// rawUpstream adds the host raw.example, which answers every request with these bytes.
func rawUpstream(t *testing.T, answer string) stack.Patch {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerRaw(conn, answer)
		}
	}()
	return stack.NewPatch("an upstream that answers with raw bytes", stack.AddUpstream("raw", l.Addr().String(), "", ""))
}

func answerRaw(conn net.Conn, answer string) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(conn)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, req.Body)
	_, _ = io.WriteString(conn, answer)
	_, _ = r.ReadByte() // until Envoy closes
}
