package integration

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// malformed are messages that Envoy's HTTP/1.1 lets through, and its HTTP/2 does not.
var malformed = []struct {
	name   string
	host   string // "": raw.example
	answer string // of the upstream that answers in raw bytes
	want   string // the status line
	report stack.Report
}{
	{name: "a host with a user", host: "user@app.example", want: "HTTP/1.1 200 OK"},
	{name: "status 099", answer: "HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n", want: "HTTP/1.1 99 Unknown", report: invalidStatus},
	{name: "status 1000", answer: "HTTP/1.1 1000 Odd\r\ncontent-length: 0\r\n\r\n", want: "HTTP/1.1 1000 Unknown", report: invalidStatus},
	{name: "an upgrade that nobody asked for", answer: "HTTP/1.1 101 Switching Protocols\r\n\r\n", want: "HTTP/1.1 101 Switching Protocols"},
	{name: "TE in an answer", answer: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nte: gzip\r\n\r\n", want: "HTTP/1.1 200 OK"},
}

var invalidStatus = stack.Report{Verdict: "ambiguous", Reason: "invalid_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"}

// oneHop adds hosts plain.example and plain@app.example whose requests go from the outer hop to the upstream.
func oneHop(cluster string) stack.Patch {
	return stack.NewPatch("one hop only", stack.Append(stack.HCM("outer")+"/route_config/virtual_hosts",
		`{name: plain, domains: [plain.example, plain@app.example], routes: [{match: {prefix: /}, route: {cluster: `+cluster+`}}]}`))
}

// A malformed message harms nobody else, and is answered as by an Envoy that has no second hop.
func TestEvidenceMalformedMessageEndsItselfAlone(t *testing.T) {
	t.Parallel()
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			host, plain, cluster := "raw.example", "plain.example", "raw"
			if m.host != "" {
				host, plain, cluster = m.host, "plain@app.example", "app"
			}
			s := start(t, stack.Options{Patches: []stack.Patch{rawUpstream(t, m.answer), oneHop(cluster)}})
			innocent := besidePost(t, s, func() {
				line, header := postRaw(t, s, host)
				if alone, _ := postRaw(t, s, plain); line != m.want || alone != line {
					t.Errorf("%q, by one hop %q, want %q", line, alone, m.want)
				}
				wantReport(t, stack.Answer{Header: http.Header(header)}, m.report)
			})
			if innocent.Status != 200 {
				t.Errorf("the POST beside it: status %d, %+v", innocent.Status, innocent.Report())
			}
			wantHits(t, s, innocent, 1, 1)
		})
	}
}

// On a connection that all requests share it ends the POST that the upstream has executed.
func TestEvidenceMalformedMessageBite(t *testing.T) {
	t.Parallel()
	for _, m := range malformed {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Patches: []stack.Patch{rawUpstream(t, m.answer), http2Hops}})
			innocent := besidePost(t, s, func() { postRaw(t, s, cmp.Or(m.host, "raw.example")) })
			if innocent.Status == 200 {
				t.Error("the POST beside it was answered")
			}
			wantReport(t, innocent, finalized)
			wantHits(t, s, innocent, 1, 1)
		})
	}
}

// besidePost lets a POST run while f does, and returns its answer.
func besidePost(t *testing.T, s *stack.Stack, f func()) stack.Answer {
	t.Helper()
	r := stack.Request{Method: "POST", ID: s.NewID(), Fault: "ok delay=500ms", Body: "pay"}
	running := send(t, s, r)
	waitHits(t, s, r.ID, 1)
	f()
	return answered(t, running)
}

// postRaw returns an answer's status line and header as they stand, which net/http might refuse.
func postRaw(t *testing.T, s *stack.Stack, host string) (line string, header textproto.MIMEHeader) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	r := textproto.NewReader(bufio.NewReader(conn))
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nhost: %s\r\ncontent-length: 3\r\n\r\npay", host)
	if err == nil {
		if line, err = r.ReadLine(); err == nil {
			header, err = r.ReadMIMEHeader()
		}
	}
	if err != nil {
		t.Errorf("%s: %v", host, err)
	}
	return line, header
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
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(conn, answer)
	}
}
