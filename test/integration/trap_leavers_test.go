package integration

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// gated is an upstream that answers when its gate opens.
type gated struct {
	open     chan struct{}
	executed atomic.Int64
	addr     string
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{open: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		g.executed.Add(1)
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	g.addr = server.Listener.Addr().String()
	return g
}

// patch adds the host gated.example.
func (g *gated) patch() stack.Patch {
	return stack.NewPatch("an upstream with a gate",
		outerHost("gated", `{timeout: 60s}`),
		stack.AddUpstream("gated", g.addr, "", "{route: {cluster: gated, timeout: 60s}}"))
}

// besideLeavers lets a POST run while 1200 clients ask and leave, and returns its answer.
func besideLeavers(t *testing.T, s *stack.Stack, g *gated) stack.Answer {
	t.Helper()
	post := send(t, s, stack.Request{Method: "POST", Host: "gated.example", Body: "pay"})
	waitFor(t, "the POST is being executed", func() bool { return g.executed.Load() == 1 })
	const clients, atOnce = 1200, 100
	for n := atOnce; n <= clients; n += atOnce {
		var conns []*net.TCPConn
		for range atOnce {
			conn, err := net.Dial("tcp", s.Addr)
			if err == nil {
				conns = append(conns, conn.(*net.TCPConn))
				_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nhost: patient.example\r\nx-fault: stuck\r\n\r\n")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s.WaitStat("http.outer.downstream_rq_total", 1+n)
		for _, conn := range conns {
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}
	}
	waitFor(t, "they have left", func() bool { return s.ClusterStat("patient", "upstream_rq_active") == 0 })
	close(g.open)
	return answered(t, post)
}

// Clients that leave early harm nobody, as many as they may be.
func TestTrapLeavers(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	s := startTrap(t, stack.Options{Patches: []stack.Patch{patient, g.patch()}})
	if a := besideLeavers(t, s, g); a.Status != 200 || g.executed.Load() != 1 {
		t.Errorf("the POST beside them: status %d, %+v, %d executed", a.Status, a.Report(), g.executed.Load())
	}
}

// On a shared connection they look like an attack (Envoy counts 500 streams that end within a second of their
// beginning), and the connection is closed.
func TestTrapLeaversBite(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	s := startTrap(t, stack.Options{Patches: []stack.Patch{patient, g.patch(), http2Hops}})
	a := besideLeavers(t, s, g)
	if a.Status != 503 || g.executed.Load() != 1 {
		t.Errorf("the POST beside them: status %d, %d executed: the trap does not bite", a.Status, g.executed.Load())
	}
	wantReport(t, a, finalized)
}
