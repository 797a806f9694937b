package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// trailersInHTTP1 lets Envoy pass trailers in HTTP/1.1, which by itself it does not.
var trailersInHTTP1 = stack.NewPatch("trailers in HTTP/1.1", stack.Set(stack.HCM("outer")+"/http_protocol_options", "{enable_trailers: true}"),
	stack.Set(stack.HTTPOptions("app")+"/explicit_http_config/http_protocol_options", "{enable_trailers: true}"))

// What is healthy passes through both hops as if these were not there, and Verdict is never asked.
func TestPassthrough(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Patches: []stack.Patch{clientRoutes, trailersInHTTP1}})
	hosts := []string{"app.example", "h2.example"}

	t.Run("answers", func(t *testing.T) {
		for _, status := range []int{200, 201, 202, 204, 206, 226, 300, 301, 302, 303, 304, 307, 308, 399} {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				for _, host := range hosts {
					for protocol, do := range protocols(s) {
						t.Run(fmt.Sprintf("%s %d from %s by %s", method, status, host, protocol), func(t *testing.T) {
							size := 1000
							if status == 204 || status == 304 {
								size = 0
							}
							r := stack.Request{Method: method, Host: host, Fault: fmt.Sprintf("status:%d body=%d header:location=/x header:etag=e header:set-cookie=a header:set-cookie=b", status, size)}
							a := do(r)
							want := string(upstream.Body(size))
							if method == "HEAD" {
								want = ""
							}
							if a.Status != status || a.Body != want {
								t.Errorf("status %d, %d bytes", a.Status, len(a.Body))
							}
							if a.Header.Get("Location") != "/x" || a.Header.Get("Etag") != "e" || strings.Join(a.Header["Set-Cookie"], " ") != "a b" {
								t.Errorf("header %v", a.Header)
							}
							if length := a.Header.Get("Content-Length"); size > 0 && length != "1000" {
								t.Errorf("content-length %q", length)
							}
							if len(a.HeadersWith("x-retry-")) > 0 {
								t.Errorf("report %+v", a.Report())
							}
							wantHits(t, s, a, 1, 1)
							wantNothingInternal(t, a)
						})
					}
				}
			}
		}
	})

	t.Run("trailers", func(t *testing.T) {
		for _, host := range hosts {
			for protocol, do := range protocols(s) {
				t.Run(host+" "+protocol, func(t *testing.T) {
					a := do(stack.Request{Host: host, Fault: "ok body=1000 trailer:x-checksum=abc"})
					if a.Body != string(upstream.Body(1000)) || a.Trailer.Get("X-Checksum") != "abc" {
						t.Errorf("%d bytes, trailer %v", len(a.Body), a.Trailer)
					}
				})
			}
			t.Run("of the request to "+host, func(t *testing.T) {
				a := s.DoH2(stack.Request{Method: "POST", Host: host, Upload: pieces("pay", 3), Header: []string{"trailer!x-checksum: abc"}})
				if got := s.Upstream.Hits(a.ID)[0].Trailer.Get("X-Checksum"); got != "abc" {
					t.Errorf("trailer %q", got)
				}
			})
		}
	})

	t.Run("downloads and uploads of 20 MB", func(t *testing.T) {
		for _, host := range hosts {
			for protocol, do := range protocols(s) {
				t.Run(host+" "+protocol, func(t *testing.T) {
					body := string(upstream.Body(20e6))
					a := do(stack.Request{Method: "POST", Host: host, Fault: "echo", Upload: pieces(body, 32<<10)})
					if a.Status != 200 || a.Body != body {
						t.Errorf("status %d, %d bytes, the same: %t", a.Status, len(a.Body), a.Body == body)
					}
				})
			}
		}
	})

	t.Run("a trickle", func(t *testing.T) {
		resp, err := http.Get(s.URL() + "/?fault=trickle:200+body=1000+piece=100+every=100ms")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		first := make([]byte, 100)
		if _, err := io.ReadFull(resp.Body, first); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		rest, err := io.ReadAll(resp.Body)
		if err != nil || string(first)+string(rest) != string(upstream.Body(1000)) {
			t.Errorf("%d bytes, %v", len(first)+len(rest), err)
		}
		if took := time.Since(begin); took < 300*time.Millisecond {
			t.Errorf("the rest came %v after the first piece: it was held back", took)
		}
	})

	t.Run("Expect: 100-continue", func(t *testing.T) {
		for _, host := range hosts {
			t.Run(host, func(t *testing.T) { expectContinue(t, s, host) })
		}
	})

	t.Run("WebSocket", func(t *testing.T) { talkWebSocket(t, s) })

	wantNobodyAsked(t, s)
}

// expectContinue sends a body only when it is asked for.
func expectContinue(t *testing.T, s *stack.Stack, host string) {
	transport := &http.Transport{ExpectContinueTimeout: 20 * time.Second}
	defer transport.CloseIdleConnections()
	var asked, early atomic.Bool
	body := io.TeeReader(strings.NewReader("pay"), writerFunc(func(p []byte) (int, error) {
		early.CompareAndSwap(false, !asked.Load())
		return len(p), nil
	}))
	id := s.NewID()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { asked.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL(), body)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.ContentLength = 3
	req.Header = http.Header{"Expect": {"100-continue"}, "X-Test-Id": {id}}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 200 || !asked.Load() || early.Load() {
		t.Errorf("status %d, asked for the body: %t, sent before: %t", resp.StatusCode, asked.Load(), early.Load())
	}
	if hits := s.Upstream.Hits(id); len(hits) != 1 || hits[0].BodyBytes != 3 {
		t.Errorf("hits %+v", hits)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// talkWebSocket exchanges frames of all kinds and sizes, for longer than the route's timeout of 1 s.
func talkWebSocket(t *testing.T, s *stack.Stack) {
	ws, resp, err := websocket.Dial(t.Context(), s.URL()+"/payments/socket", &websocket.DialOptions{Host: "app.example"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	if resp.StatusCode != 101 || resp.Header.Get("X-Retry-Verdict") != "" {
		t.Errorf("status %d, header %v", resp.StatusCode, resp.Header)
	}
	for _, size := range []int{0, 1, 125, 126, 1000, 32_768} {
		for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
			want := upstream.Body(size)
			if err := ws.Write(t.Context(), kind, want); err != nil {
				t.Fatal(err)
			}
			gotKind, got, err := ws.Read(t.Context())
			if err != nil || gotKind != kind || string(got) != string(want) {
				t.Fatalf("%d bytes, kind %v: %d bytes, kind %v, %v", size, kind, len(got), gotKind, err)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err := ws.Close(websocket.StatusNormalClosure, "done"); err != nil {
		t.Errorf("close: %v", err)
	}
}
