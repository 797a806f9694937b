package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(Addrs{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return s
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// client speaks HTTP/1.1 on one connection of its own.
type client struct {
	t    *testing.T
	conn net.Conn
	br   *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, strings.Join(lines, "\r\n")); err != nil {
		c.t.Fatal("write:", err)
	}
}

// post sends a complete POST with a body of 10 bytes.
func (c *client) post(id, script string) {
	c.t.Helper()
	c.send("POST /pay HTTP/1.1", "Host: up", "X-Test-Id: "+id, "X-Fault: "+script, "Content-Length: 10", "", "0123456789")
}

func (c *client) get(id, script string) {
	c.t.Helper()
	c.send("GET /thing?x=1 HTTP/1.1", "Host: up", "X-Test-Id: "+id, "X-Fault: "+script, "", "")
}

// response reads an answer and its whole body.
func (c *client) response(method string) (*http.Response, string) {
	c.t.Helper()
	resp, body, err := c.tryResponse(method)
	if err != nil {
		c.t.Fatal("response:", err)
	}
	return resp, body
}

func (c *client) tryResponse(method string) (*http.Response, string, error) {
	resp, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// end reads until the connection ends, and says what came and how it ended.
func (c *client) end() (string, ending) {
	c.t.Helper()
	got, err := io.ReadAll(c.br)
	switch {
	case err == nil:
		return string(got), endFIN
	case errors.Is(err, syscall.ECONNRESET):
		return string(got), endRST
	}
	c.t.Fatal("end of connection:", err)
	return "", endUnset
}

// quiet fails if anything arrives, or the connection ends, within d.
func (c *client) quiet(d time.Duration) {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(d))
	b, err := c.br.Peek(1)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		c.t.Fatalf("expected silence, got %q, %v", b, err)
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
}

// wantHits checks the number of hits and of effects once the last hit has come to rest.
func wantHits(t *testing.T, s *Server, id string, hits, effects int) []Hit {
	t.Helper()
	got, err := s.WaitUntil(soon(t), id, func(h []Hit) bool { return len(h) >= hits && countExecuted(h) >= effects })
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != hits || s.Effects(id) != effects {
		t.Fatalf("%s: %d hits, %d effects; want %d, %d", id, len(got), s.Effects(id), hits, effects)
	}
	return got
}

func countExecuted(hits []Hit) int {
	n := 0
	for _, h := range hits {
		if h.Executed {
			n++
		}
	}
	return n
}

func (e ending) String() string {
	return map[ending]string{endFIN: "FIN", endRST: "RST"}[e] + fmt.Sprintf("(%d)", uint8(e))
}
