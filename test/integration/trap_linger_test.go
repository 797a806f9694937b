package integration

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// lingering is an upstream, by HTTP/2, that goes on with its work when a POST has its whole answer: the length
// is announced, and the stream does not end. Other requests are answered at once.
type lingering struct {
	addr string
	open chan struct{}
	ends atomic.Int64
}

func newLingering(t *testing.T) *lingering {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &lingering{addr: listener.Addr().String(), open: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: &protocols, Handler: l}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return l
}

func (l *lingering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("content-length", "4")
	_, _ = io.WriteString(w, "body")
	if r.Method != http.MethodPost {
		return
	}
	_ = http.NewResponseController(w).Flush()
	select {
	case <-l.open:
	case <-r.Context().Done():
	}
	l.ends.Add(1)
}

// patch adds the host lingering.example.
func (l *lingering) patch() stack.Patch {
	return stack.NewPatch("an upstream that lingers",
		outerHost("lingering", `{timeout: 60s}`),
		stack.AddUpstream("lingering", l.addr, "", "{route: {cluster: lingering, timeout: 60s}}"),
		stack.Set(stack.HTTPOptions("lingering")+"/explicit_http_config", "{http2_protocol_options: {}}"))
}

// An answer ends for router A with its announced length, and for the inner hop with the upstream's stream. No
// other request waits for the difference, and nothing is said to be cut off.
func TestTrapLingeringStream(t *testing.T) {
	t.Parallel()
	l := newLingering(t)
	s := startTrap(t, stack.Options{Patches: []stack.Patch{l.patch()}})
	for range 5 {
		for _, method := range []string{"POST", "GET"} {
			if a := s.Do(stack.Request{Method: method, Host: "lingering.example"}); a.Status != 200 || a.Body != "body" {
				t.Errorf("%s: status %d, %q", method, a.Status, a.Body)
			}
		}
	}
	waitFor(t, "the upstream has ended", func() bool { return l.ends.Load() == 5 })
	waitFor(t, "the attempts were logged", func() bool { return s.ServiceMetric(0, "verdict_first_attempts_total") >= 10 })
	if n := s.ServiceMetric(0, "verdict_cut_off_answers_total"); n != 0 {
		t.Errorf("%v answers are said to be cut off", n)
	}
}

var keptConnections = stack.NewPatch("connections between the hops are used again",
	stack.Remove(stack.HTTPOptions("attempts")+"/common_http_protocol_options/max_requests_per_connection"))

func TestTrapLingeringStreamBite(t *testing.T) {
	t.Parallel()
	l := newLingering(t)
	s := startTrap(t, stack.Options{Patches: []stack.Patch{l.patch(), keptConnections}})
	if a := s.Do(stack.Request{Method: "POST", Host: "lingering.example"}); a.Status != 200 {
		t.Errorf("status %d", a.Status)
	}
	get := send(t, s, stack.Request{})
	hangs(t, "somebody else's GET of another upstream", get)
	close(l.open)
	if a := answered(t, get); a.Status != 200 {
		t.Errorf("status %d", a.Status)
	}
}
