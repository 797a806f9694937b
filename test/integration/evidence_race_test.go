package integration

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

const raceConfig = `
defaults: {backoff: {base: 0.001s, max: 0.005s}, budget: {ratio: 0, min_retries_per_second: 10000}}
`

// A false NOT_SENT would send a request again that was executed. So thousands of POSTs run against servers
// that end connections at every moment: none is executed twice, and none that was reported as NOT_SENT has
// reached a server.
func TestEvidenceRaces(t *testing.T) {
	t.Parallel()
	racer, racerTLS := newRacer(t, nil), newRacer(t, serverCertificate())
	s := start(t, stack.Options{Config: raceConfig, Patches: []stack.Patch{stack.NewPatch("servers that end connections at every moment",
		stack.AddUpstream("racer", racer.Addr().String(), "", ""),
		stack.AddUpstream("racer-tls", racerTLS.Addr().String(), `{transport_socket: {name: envoy.transport_sockets.tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {tls_params: {tls_maximum_protocol_version: TLSv1_3}}}}}`, ""),
		upstreamLike("http1", "", ""), upstreamLikeH2("http2"), upstreamLikeH2("goaway"),
		stack.Set(stack.HTTPOptions("goaway")+"/explicit_http_config", "{http2_protocol_options: {max_concurrent_streams: 1}}"))}})
	// On HTTP/2 the faults of one request end the connection of others.
	http1 := []string{"ok", "ok", "ok close", "keepalive-race", "keepalive-race end=fin", "keepalive-race:read", "keepalive-race hold=1ms", "reset", "reset:head", "fin"}
	http2 := []string{"ok", "ok", "ok", "ok", "ok", "ok", "ok", "ok", "ok delay=3ms", "ok delay=3ms", "refused", "refused", "refused", "goaway:above:open", "goaway:above", "rst:INTERNAL_ERROR", "reset", "fin"}
	// A GOAWAY below a stream would be a lie where a later stream has been executed: one at a time.
	goaway := []string{"ok", "ok", "ok delay=3ms", "goaway:below", "goaway:below:open", "goaway:below hold=2ms", "goaway:at", "goaway:at:open", "refused", "reset:head", "fin"}
	script := func(faults []string, r *rand.Rand) string {
		return faults[r.IntN(len(faults))] + ", " + faults[r.IntN(len(faults))] + ", ok"
	}
	for _, test := range []struct {
		host   string
		faults []string
		seen   func(id string) (hits, effects int)
	}{
		{"racer", []string{"ok"}, racer.seen},
		{"racer-tls", []string{"ok"}, racerTLS.seen},
		{"http1", http1, func(id string) (int, int) { return len(s.Upstream.Hits(id)), s.Upstream.Effects(id) }},
		// What is refused, or overtaken by a GOAWAY, has arrived; it is not executed.
		{"http2", http2, func(id string) (int, int) { return 0, s.Upstream.Effects(id) }},
		{"goaway", goaway, func(id string) (int, int) { return 0, s.Upstream.Effects(id) }},
	} {
		t.Run(test.host, func(t *testing.T) {
			t.Parallel()
			outcomes := posts(t, s, 2000, func(r *rand.Rand) stack.Request {
				return stack.Request{Method: "POST", Host: test.host + ".example", Fault: script(test.faults, r), Body: "pay"}
			})
			count := map[string]int{}
			for _, a := range outcomes {
				hits, effects := test.seen(a.ID)
				report := a.Report()
				outcome := report.Verdict + " " + report.Evidence
				if a.Status == 200 {
					outcome = "200"
				}
				count[outcome]++
				switch {
				case effects > 1:
					t.Errorf("%s was executed %d times: %+v", a.ID, effects, a)
				case a.Status == 200 && effects != 1:
					t.Errorf("%s was answered and not executed", a.ID)
				case report.Evidence == "NOT_SENT" && (hits > 0 || effects > 0):
					t.Errorf("%s is NOT_SENT, with %d hits and %d side effects: %+v", a.ID, hits, effects, a)
				case report.Execution == "NOT_EXECUTED" && effects > 0:
					t.Errorf("%s is NOT_EXECUTED, and was executed: %+v", a.ID, a)
				case a.Status != 200 && report.Verdict == "":
					t.Errorf("%s failed without a report: %+v", a.ID, a)
				case report.Verdict == "ambiguous" && report.AmbiguityID == "":
					t.Errorf("%s is ambiguous without an id: %+v", a.ID, a)
				}
			}
			t.Logf("%v, retries %v", count, s.ServiceMetric(0, "verdict_decisions_total", "upstream="+test.host, "verdict=retry"))
			if count["200"] < 50 || count["ambiguous SENT_NO_RESPONSE"] < 50 {
				t.Errorf("no race: %v", count)
			}
			if n := s.ServiceMetric(0, "verdict_decisions_total", "upstream="+test.host, "verdict=retry"); test.host != "http1" && n < 10 {
				t.Errorf("%v retries", n)
			}
		})
	}
}

// Were the bytes that Envoy has written not looked at, the same servers would execute requests twice.
func TestEvidenceRacesBite(t *testing.T) {
	t.Parallel()
	racer := newRacer(t, nil)
	facts := stack.DelegatedConfig("attempts", "facts") + "/mutations/response_mutations/0/append/header/value"
	s := start(t, stack.Options{Config: raceConfig, Patches: []stack.Patch{stack.NewPatch("no byte is ever sent",
		stack.AddUpstream("racer", racer.Addr().String(), "", ""),
		func(c *stack.Config) error {
			value, err := c.Get(facts)
			if err != nil {
				return err
			}
			return stack.Set(facts, strconv.Quote(strings.Replace(value.(string), "%UPSTREAM_WIRE_BYTES_SENT%", "0", 1)))(c)
		})}})
	twice := 0
	for _, a := range posts(t, s, 500, func(*rand.Rand) stack.Request {
		return stack.Request{Method: "POST", Host: "racer.example", Body: "pay"}
	}) {
		if _, effects := racer.seen(a.ID); effects > 1 {
			twice++
		}
	}
	if twice == 0 {
		t.Error("no request was executed twice")
	}
}

// posts sends n requests, 32 at a time.
func posts(t *testing.T, s *stack.Stack, n int, next func(*rand.Rand) stack.Request) []stack.Answer {
	t.Helper()
	answers := make([]stack.Answer, n)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var all sync.WaitGroup
	const workers = 32
	for w := range workers {
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		all.Go(func() {
			for i := w; i < n; i += workers {
				var err error
				if answers[i], err = s.Try(context.Background(), next(r)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return answers
}

// racer is an HTTP/1.1 server that ends each connection at a moment of its own: before it has read
// anything, while a request arrives, once it has executed it, or when the connection is idle.
type racer struct {
	net.Listener

	mu            sync.Mutex
	hits, effects map[string]int
	config        *tls.Config // nil: no TLS
}

func serverCertificate() *tls.Config {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates}
}

func newRacer(t *testing.T, config *tls.Config) *racer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &racer{Listener: l, hits: map[string]int{}, effects: map[string]int{}, config: config}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return s
}

func (s *racer) seen(id string) (hits, effects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[id], s.effects[id]
}

func (s *racer) serve(raw *net.TCPConn) {
	defer func() { _ = raw.Close() }()
	if rand.IntN(2) == 0 {
		_ = raw.SetLinger(0) // RST, not FIN
	}
	conn := net.Conn(raw)
	if s.config != nil {
		conn = tls.Server(raw, s.config)
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	pause := func() { time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) }
	if rand.IntN(6) == 0 { // at once, or before the first request
		if rand.IntN(2) == 0 {
			pause()
		}
		return
	}
	r := bufio.NewReader(conn)
	for {
		// An idle connection ends at any time: the next request may be on its way.
		if rand.IntN(3) == 0 {
			_ = conn.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(3000)) * time.Microsecond))
		}
		if _, err := r.Peek(1); err != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		id := req.Header.Get("X-Test-Id")
		s.mu.Lock()
		s.hits[id]++
		s.mu.Unlock()
		if rand.IntN(20) == 0 { // the body is not read
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		s.mu.Lock()
		s.effects[id]++
		s.mu.Unlock()
		if rand.IntN(10) == 0 { // executed, and not answered
			pause()
			return
		}
		body := fmt.Sprintf("done %s\n", id)
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\ncontent-length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
			return
		}
		if rand.IntN(4) == 0 { // without a warning
			if rand.IntN(2) == 0 {
				pause()
			}
			return
		}
	}
}
