package integration

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// Peers that stop reading stall nobody.
func TestTrapSlowPeers(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{patient}})
	defer slowReaders(t, s, 40)()
	defer stuckUploads(t, s, 30)()
	for i := range 5 {
		for _, r := range innocents {
			a := s.Do(r)
			if a.Status != 200 || a.Body != string(upstream.Body(innocentBody)) {
				t.Errorf("%d: %s: status %d, %d bytes", i, r.Method, a.Status, len(a.Body))
			}
		}
	}
}

const innocentBody = 5000

var innocents = []stack.Request{
	{Method: "GET", Host: "patient.example", Fault: fmt.Sprintf("ok body=%d", innocentBody)},
	{Method: "POST", Host: "patient.example", Fault: fmt.Sprintf("ok body=%d", innocentBody), Body: "pay"},
}

// On a shared connection a few slow peers use up the window of all.
func TestTrapSlowPeersBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{patient, http2Hops}})

	leave := slowReaders(t, s, 4)
	get := send(t, s, innocents[0])
	hangs(t, "a GET beside 4 slow readers", get)
	leave()
	if a := answered(t, get); a.Status != 200 || len(a.Body) != innocentBody {
		t.Errorf("after they have left: status %d, %d bytes", a.Status, len(a.Body))
	}

	// Envoy 1.40 does not see that an uploading client has left while it reads nothing from it, so
	// that this stall outlasts the peers.
	stuckUploads(t, s, 4)()
	post := send(t, s, innocents[1])
	if a := s.Do(innocents[0]); a.Status != 200 {
		t.Errorf("a GET, which needs no window: status %d", a.Status)
	}
	hangs(t, "a POST beside 4 stuck uploads", post)
}

// slowReaders asks n times for 32 MiB and reads none of it. It returns when nothing more can move; the
// function that it returns makes them leave.
func slowReaders(t *testing.T, s *stack.Stack, n int) (leave func()) {
	leave = peers(t, s, n, func(conn net.Conn, id string) error {
		_, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nhost: patient.example\r\nx-test-id: %s\r\nx-fault: ok body=32MiB\r\n\r\n", id)
		return err
	})
	waitStill(t, s, "cluster.patient.upstream_cx_rx_bytes_total")
	return leave
}

// stuckUploads sends n bodies of 32 MiB to an upstream that reads none of them.
func stuckUploads(t *testing.T, s *stack.Stack, n int) (leave func()) {
	leave = peers(t, s, n, func(conn net.Conn, id string) error {
		const size, piece = 32 << 20, 1 << 20
		_, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nhost: patient.example\r\nx-test-id: %s\r\nx-fault: not-reading\r\ncontent-length: %d\r\n\r\n", id, size)
		if err == nil {
			_, err = io.Copy(conn, io.LimitReader(repeat{bytes.Repeat([]byte("x"), piece)}, size))
		}
		return err
	})
	waitStill(t, s, "http.outer.downstream_cx_rx_bytes_total")
	return leave
}

// repeat is an endless reader.
type repeat struct{ piece []byte }

func (r repeat) Read(p []byte) (int, error) { return copy(p, r.piece), nil }

// peers opens n connections, writes a request to each, and waits until the upstream has seen them all.
func peers(t *testing.T, s *stack.Stack, n int, write func(net.Conn, string) error) (leave func()) {
	t.Helper()
	var conns []net.Conn
	done := make(chan error, n)
	for range n {
		conn, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(16 << 10)
		conns = append(conns, conn)
		id := s.NewID()
		go func() { done <- write(conn, id) }()
		waitHits(t, s, id, 1)
	}
	return func() {
		for _, conn := range conns {
			// By RST: Envoy does not see a FIN where it has stopped reading.
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
		for range conns {
			<-done // an upload ends when its connection is closed
		}
	}
}

// waitStill waits until a counter has stopped.
func waitStill(t *testing.T, s *stack.Stack, counter string) {
	t.Helper()
	last, since := -1, time.Now()
	waitFor(t, counter+" stands still", func() bool {
		if n := s.EnvoyStat(counter); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	})
}
