package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestScriptPlaysOneEntryPerHit(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	for i, want := range []int{503, 429, 200, 200} {
		c.post("seq", "503, status:429 retry-after=2, ok")
		resp, _ := c.response("POST")
		if resp.StatusCode != want {
			t.Fatalf("hit %d: status %d, want %d", i+1, resp.StatusCode, want)
		}
		if i == 1 && resp.Header.Get("Retry-After") != "2" {
			t.Errorf("Retry-After %q", resp.Header.Get("Retry-After"))
		}
	}
	hits := wantHits(t, s, "seq", 4, 3) // the 429 did nothing
	sum := sha256.Sum256([]byte("0123456789"))
	for i, h := range hits {
		if h.Attempt != i+1 || h.Method != "POST" || h.Path != "/pay" || h.Host != "up" || h.BodyBytes != 10 ||
			h.BodySHA256 != hex.EncodeToString(sum[:]) || !h.Complete || h.Conn != 1 || h.Listener != "h1" ||
			h.Proto != "HTTP/1.1" || h.Header.Get("X-Test-Id") != "seq" || i > 0 && h.At <= hits[i-1].At {
			t.Errorf("hit %d: %+v", i+1, h)
		}
	}
	if hits[1].Fault != "status:429 retry-after=2" {
		t.Errorf("fault %q", hits[1].Fault)
	}
}

func TestWhereTheScriptAndTheIDComeFrom(t *testing.T) {
	s := start(t)
	for _, test := range []struct {
		id, path string
		header   []string
		status   int
	}{
		{"q1", "/a?fault=503%3Bok&id=q1", nil, 503},
		{"q2", "/a?id=q2&fault=404", nil, 404},
		{"h1", "/a?fault=404&id=q3", []string{"x-fault: 500", "x-test-id: h1"}, 500},
		{"r1", "/a?fault=418", []string{"x-request-id: r1"}, 418},
		{"r2", "/a", []string{"x-request-id: r2"}, 200},
		{"l1", "/a", []string{"x-test-id: l1", "x-fault: 502", "x-fault: ok"}, 502},
	} {
		c := dial(t, s.Addrs().H1)
		c.send(append(append([]string{"GET " + test.path + " HTTP/1.1", "Host: up"}, test.header...), "", "")...)
		if resp, _ := c.response("GET"); resp.StatusCode != test.status {
			t.Errorf("%s: status %d, want %d", test.path, resp.StatusCode, test.status)
		}
		recorded := 1
		if test.id == "r2" { // healthy traffic is not recorded
			recorded = 0
		}
		if hits := s.Hits(test.id); len(hits) != recorded {
			t.Errorf("%s: %d hits of %s", test.path, len(hits), test.id)
		}
	}
	if got := s.Stats(); got.Requests != 6 || got.Connections != 6 {
		t.Errorf("stats %+v", got)
	}
}

func TestBadScriptIsAnsweredByName(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.post("bad", "ok, stauts:503")
	resp, body := c.response("POST")
	if resp.StatusCode != 400 || !strings.Contains(body, `entry 2 "stauts:503": unknown fault "stauts"`) {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	wantHits(t, s, "bad", 1, 0)
	c.get("good", "ok") // the connection goes on
	if resp, body := c.response("GET"); resp.StatusCode != 200 || body != "ok\n" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

func TestBodies(t *testing.T) {
	s := start(t)
	for _, test := range []struct {
		script string
		length int64
		body   string
	}{
		{"ok", 3, "ok\n"},
		{"ok body=0", 0, ""},
		{"500 body=300", 300, string(Body(300))},
		{"500 body=300 chunked", -1, string(Body(300))},
		{"ok body=0 chunked", -1, ""},
		{"status:503 body=2MB", 2_000_000, string(Body(2_000_000))},
		{"ok body=40MB", 40_000_000, string(Body(40_000_000))},
		{"echo", 10, "0123456789"},
		{"echo:503", 10, "0123456789"},
		{"slow-body:503 hold=30ms body=100", 100, string(Body(100))},
		{"trickle body=100 piece=30 every=10ms", 100, string(Body(100))},
		{"trickle body=100 piece=30 every=10ms chunked", -1, string(Body(100))},
		{"trickle body=1 piece=30 every=10ms", 1, string(Body(1))},
		{"trickle body=5 piece=1 every=0s", 5, string(Body(5))},
	} {
		t.Run(test.script, func(t *testing.T) {
			c := dial(t, s.Addrs().H1)
			c.post(test.script, test.script)
			resp, body := c.response("POST")
			if resp.ContentLength != test.length || body != test.body {
				t.Errorf("length %d, %d bytes", resp.ContentLength, len(body))
			}
			wantHits(t, s, test.script, 1, 1)
		})
	}
}

func TestTrickleTakesItsTime(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.get("trickle", "trickle body=30 piece=10 every=60ms")
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var sizes []int
	buf := make([]byte, 100)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			sizes = append(sizes, n)
		}
		if err != nil {
			break
		}
	}
	if took := time.Since(begin); len(sizes) != 3 || took < 110*time.Millisecond {
		t.Errorf("pieces %v in %v", sizes, took)
	}
}

func TestSlowBodySendsTheHeadAtOnce(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.get("slow", "slow-body hold=150ms")
	begin := time.Now()
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	head := time.Since(begin)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	if body := time.Since(begin); body-head < 100*time.Millisecond {
		t.Errorf("head after %v, body after %v", head, body)
	}
}

func TestDelayAndExecution(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.post("delay", "ok delay=600ms")
	wantHits(t, s, "delay", 1, 1) // it is executed before the delay
	c.quiet(60 * time.Millisecond)
	c.response("POST")
}

func TestHeaderOptions(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.get("headers", `503 retry-after=1 retry-after="Wed, 21 Oct 2026 07:28:00 GMT" header:X-A=1 header:X-A=2 headers=95 lies envoy-lies clock=none`)
	resp, _ := c.response("GET")
	if got := resp.Header["Retry-After"]; len(got) != 2 || got[1] != "Wed, 21 Oct 2026 07:28:00 GMT" {
		t.Errorf("Retry-After %q", got)
	}
	if got := resp.Header["X-A"]; len(got) != 2 {
		t.Errorf("X-A %q", got)
	}
	if resp.Header.Get("X-Extra-95") == "" || resp.Header.Get("X-Extra-96") != "" || resp.Header.Get("Date") != "" {
		t.Errorf("headers %v", resp.Header)
	}
	for _, name := range LyingHeaderNames() {
		if resp.Header.Get(name) == "" {
			t.Errorf("no %s", name)
		}
	}
}

func TestClockMovesDateAndRetryAfter(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.get("clock", "503 clock=-1h retry-after=date:3s")
	resp, _ := c.response("GET")
	date, err1 := http.ParseTime(resp.Header.Get("Date"))
	after, err2 := http.ParseTime(resp.Header.Get("Retry-After"))
	if err1 != nil || err2 != nil || after.Sub(date) != 3*time.Second {
		t.Errorf("Date %v (%v), Retry-After %v (%v)", date, err1, after, err2)
	}
	if off := time.Since(date); off < 59*time.Minute || off > 61*time.Minute {
		t.Errorf("Date is %v behind", off)
	}
}

func TestInterimResponsesAndTrailers(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.get("interim", "ok info=103 info=102 header:x-verdict-control=retry trailer:x-t=1 trailer:x-t=2")
	for _, want := range []int{103, 102, 200} {
		resp, err := http.ReadResponse(c.br, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != want || resp.Header.Get("X-Verdict-Control") != "retry" {
			t.Errorf("%d %v, want %d", resp.StatusCode, resp.Header, want)
		}
		if want == 200 && (string(body) != "ok\n" || len(resp.Trailer["X-T"]) != 2) {
			t.Errorf("body %q, trailers %v", body, resp.Trailer)
		}
	}
}

func TestExpectContinue(t *testing.T) {
	s := start(t)
	for _, fault := range []string{"X-Fault: 503", "X-Nothing: 1"} {
		c := dial(t, s.Addrs().H1)
		c.send("POST / HTTP/1.1", "Host: up", fault, "Expect: 100-continue", "Content-Length: 2", "", "")
		if resp, _ := c.response("POST"); resp.StatusCode != 100 {
			t.Fatalf("%s: status %d", fault, resp.StatusCode)
		}
		c.send("hi")
		if resp, _ := c.response("POST"); resp.StatusCode == 100 {
			t.Errorf("%s: status %d", fault, resp.StatusCode)
		}
	}
}

func TestAnswersWithoutBody(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	for _, test := range []struct {
		method, script string
		length         int64
	}{
		{"HEAD", "503 body=2MB", 2_000_000}, {"HEAD", "trickle", 100}, {"GET", "204", 0}, {"GET", "304", -1},
		{"HEAD", "ok chunked", -1}, {"HEAD", "", 3},
	} {
		c.send(test.method+" / HTTP/1.1", "Host: up", "X-Fault: "+test.script, "", "")
		resp, body := c.response(test.method)
		if body != "" || resp.ContentLength != test.length && test.script != "304" {
			t.Errorf("%s %s: length %d, body %q", test.method, test.script, resp.ContentLength, body)
		}
	}
	c.get("after", "ok")
	if _, body := c.response("GET"); body != "ok\n" {
		t.Errorf("the connection is out of step: %q", body)
	}
}

func TestGRPCOverHTTP1(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.post("grpc", "grpc:14")
	resp, body := c.response("POST")
	if resp.StatusCode != 200 || resp.Header.Get("Grpc-Status") != "14" || body != "" ||
		resp.Header.Get("Content-Type") != "application/grpc" {
		t.Errorf("%d %v %q", resp.StatusCode, resp.Header, body)
	}
}

func TestChunkedUploadWithTrailers(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.send("POST / HTTP/1.1", "Host: up", "X-Test-Id: ch", "Transfer-Encoding: chunked", "Trailer: X-T", "",
		"5", "01234", "5", "56789", "0", "X-T: 1", "", "")
	c.response("POST")
	h := wantHits(t, s, "ch", 1, 1)[0]
	sum := sha256.Sum256([]byte("0123456789"))
	if h.BodyBytes != 10 || h.BodySHA256 != hex.EncodeToString(sum[:]) || h.Trailer.Get("X-T") != "1" {
		t.Errorf("%+v", h)
	}
}

func TestWebSocketEcho(t *testing.T) {
	s := start(t)
	ctx := soon(t)
	header := http.Header{"X-Test-Id": {"ws"}}
	ws, _, err := websocket.Dial(ctx, "ws://"+s.Addrs().H1+"/ws", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	for _, message := range []string{"one", "two", string(Body(20_000))} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := ws.Read(ctx); err != nil || string(got) != message {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
	}
	_ = ws.Close(websocket.StatusNormalClosure, "")
	wantHits(t, s, "ws", 1, 1)

	header.Set("X-Fault", "503")
	_, resp, err := websocket.Dial(ctx, "ws://"+s.Addrs().H1+"/ws", &websocket.DialOptions{HTTPHeader: header})
	if err == nil || resp == nil || resp.StatusCode != 503 {
		t.Errorf("a refused upgrade: %v, %v", resp, err)
	}
}
