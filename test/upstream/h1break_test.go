package upstream

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// TestBrokenOff covers the faults that end in the end of the connection.
func TestBrokenOff(t *testing.T) {
	s := start(t)
	half := string(Body(500))
	for _, test := range []struct {
		script  string
		starts  string // what arrives begins with it
		ends    string
		end     ending
		effects int
	}{
		{"reset", "", "", endRST, 1},
		{"fin", "", "", endFIN, 1},
		{"reset delay=20ms", "", "", endRST, 1},
		{"garbage", "220 this is not HTTP", "\r\n\r\n", endFIN, 1},
		{"garbage end=rst", "220 this is not HTTP", "\r\n\r\n", endRST, 1},
		{"half-header", "HTTP/1.1 200 OK\r\ndate: ", "\r\nconte", endFIN, 1},
		{"half-header:503 end=rst", "HTTP/1.1 503 Service Unavailable\r\n", "\r\nconte", endRST, 1},
		{"half-body", "HTTP/1.1 200 OK\r\n", "content-length: 1000\r\n\r\n" + half, endFIN, 1},
		{"half-body:503 hold=30ms end=rst", "HTTP/1.1 503 ", "content-length: 1000\r\n\r\n" + half, endRST, 1},
		{"half-body chunked", "HTTP/1.1 200 OK\r\n", "chunked\r\n\r\n1f4\r\n" + half + "\r\n", endFIN, 1},
		{"early:503 end=fin", "HTTP/1.1 503 ", "503 Service Unavailable\n", endFIN, 0},
		{"503 close", "HTTP/1.1 503 ", "connection: close\r\ncontent-length: 24\r\n\r\n503 Service Unavailable\n", endFIN, 1},
		{"status:429 close refused", "HTTP/1.1 429 ", "429 Too Many Requests\n", endFIN, 0},
	} {
		t.Run(test.script, func(t *testing.T) {
			c := dial(t, s.Addrs().H1)
			c.post(test.script, test.script)
			got, end := c.end()
			if !strings.HasPrefix(got, test.starts) || !strings.HasSuffix(got, test.ends) || test.ends == "" && got != "" {
				t.Errorf("got %q", got)
			}
			if end != test.end {
				t.Errorf("ended by %v, want %v", end, test.end)
			}
			wantHits(t, s, test.script, 1, test.effects)
		})
	}
}

func TestHeadFaultsDoNotReadTheBody(t *testing.T) {
	s := start(t)
	for script, end := range map[string]ending{"reset:head": endRST, "fin:head": endFIN} {
		c := dial(t, s.Addrs().H1)
		c.send("POST / HTTP/1.1", "Host: up", "X-Test-Id: "+script, "X-Fault: "+script, "Content-Length: 100000", "", "")
		if got, how := c.end(); got != "" || how != end {
			t.Errorf("%s: %q, %v", script, got, how)
		}
		if hits := wantHits(t, s, script, 1, 0); hits[0].Complete || hits[0].BodyBytes != 0 {
			t.Errorf("%s: %+v", script, hits[0])
		}
	}
}

func TestStuck(t *testing.T) {
	s := start(t)
	for _, script := range []string{"stuck", "half-header end=stall", "half-body end=stall", "garbage end=stall"} {
		c := dial(t, s.Addrs().H1)
		c.post(script, script)
		wantHits(t, s, script, 1, 1)
		if script == "stuck" {
			c.quiet(150 * time.Millisecond)
			continue
		}
		if _, err := c.br.ReadString('\n'); err != nil { // something came
			t.Fatal(script, err)
		}
		_ = c.conn.SetReadDeadline(time.Now().Add(150 * time.Millisecond))
		if _, err := io.Copy(io.Discard, c.br); err == nil || !strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: ended with %v, want silence", script, err)
		}
	}
}

func TestAClientThatLeavesEndsTheWait(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.post("left", "stuck")
	wantHits(t, s, "left", 1, 1)
	_ = c.conn.Close()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		n := len(s.conns)
		s.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the connection is still held")
		}
	}
}

func TestNotReading(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.send("POST / HTTP/1.1", "Host: up", "X-Test-Id: nr", "X-Fault: not-reading", "Content-Length: 100000000", "", "")
	_ = c.conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	wrote := 0
	for {
		n, err := c.conn.Write(Body(64 << 10))
		if wrote += n; err != nil {
			break
		}
		if wrote > 50<<20 {
			t.Fatal("the upload is being read")
		}
	}
	t.Logf("the upload was stuck after %d bytes", wrote)
	if hits := wantHits(t, s, "nr", 1, 0); hits[0].BodyBytes != 0 || hits[0].Complete {
		t.Errorf("%+v", hits[0])
	}
	c.quiet(50 * time.Millisecond)
}

func TestEarlyAnswerKeepsReading(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.send("POST / HTTP/1.1", "Host: up", "X-Test-Id: early", "X-Fault: early:503", "Content-Length: 20", "", "0123456789")
	if resp, _ := c.response("POST"); resp.StatusCode != 503 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	if h := s.Hits("early")[0]; h.BodyBytes != 10 || h.Complete {
		t.Errorf("when it was answered: %+v", h)
	}
	c.send("0123456789")
	c.get("next", "ok")
	c.response("GET")
	if h := wantHits(t, s, "early", 1, 0)[0]; h.BodyBytes != 20 || !h.Complete {
		t.Errorf("in the end: %+v", h)
	}
}

func TestEarlyAnswerThatStopsReading(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.send("POST / HTTP/1.1", "Host: up", "X-Test-Id: early", "X-Fault: early:413 end=stall", "Content-Length: 20", "", "0123456789")
	if resp, _ := c.response("POST"); resp.StatusCode != 413 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	c.send("0123456789")
	c.quiet(100 * time.Millisecond)
	if h := wantHits(t, s, "early", 1, 0)[0]; h.BodyBytes != 10 || h.Complete {
		t.Errorf("%+v", h)
	}
}

func TestKeepAliveRace(t *testing.T) {
	s := start(t)
	for _, test := range []struct {
		script  string
		end     ending
		hits    int
		effects int
	}{
		{"keepalive-race", endRST, 0, 0},
		{"keepalive-race end=fin", endFIN, 0, 0},
		{"keepalive-race:read", endRST, 1, 1},
		{"keepalive-race:read end=fin", endFIN, 1, 1},
	} {
		t.Run(test.script, func(t *testing.T) {
			before := s.Stats().Raced
			c := dial(t, s.Addrs().H1)
			c.get("first"+test.script, test.script)
			if resp, body := c.response("GET"); resp.StatusCode != 200 || body != "ok\n" || resp.Close {
				t.Fatalf("%d %q", resp.StatusCode, body)
			}
			c.quiet(50 * time.Millisecond) // idle: the connection stays open
			c.post("second"+test.script, "ok")
			if got, end := c.end(); got != "" || end != test.end {
				t.Errorf("got %q, ended by %v", got, end)
			}
			wantHits(t, s, "second"+test.script, test.hits, test.effects)
			if raced := s.Stats().Raced - before; raced != int64(1-test.hits) {
				t.Errorf("%d raced", raced)
			}
		})
	}
}

func TestStatusesOutOfRange(t *testing.T) {
	s := start(t)
	for _, status := range []string{"000", "099", "600", "999"} {
		c := dial(t, s.Addrs().H1)
		c.get("s"+status, "status:"+status+" close")
		if got, _ := c.end(); !strings.HasPrefix(got, "HTTP/1.1 "+status+" ") {
			t.Errorf("%s: %q", status, got)
		}
	}
}

func TestUploadThatIsCutOff(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.send("POST / HTTP/1.1", "Host: up", "X-Test-Id: cut", "X-Fault: ok", "Content-Length: 20", "", "0123456789")
	if _, err := s.WaitUntil(soon(t), "cut", func(h []Hit) bool { return len(h) == 1 && h[0].BodyBytes == 10 }); err != nil {
		t.Fatal(err)
	}
	_ = c.conn.Close()
	time.Sleep(20 * time.Millisecond)
	if h := wantHits(t, s, "cut", 1, 0)[0]; h.Complete {
		t.Errorf("%+v", h)
	}
}

func TestMalformedRequest(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	c.send("this is not HTTP", "", "")
	if got, end := c.end(); !strings.HasPrefix(got, "HTTP/1.1 400 ") || end != endFIN {
		t.Errorf("%q, %v", got, end)
	}
}

func TestCloseEndsEveryFault(t *testing.T) {
	s, err := Start(Addrs{})
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"stuck", "not-reading", "ok delay=10m", "early end=stall", "trickle every=1m", "ok"} {
		c := dial(t, s.Addrs().H1)
		c.post(script, script)
		if _, err := s.WaitHits(soon(t), script, 1); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("Close hangs")
	}
	if err := s.Close(); err != nil {
		t.Error("second Close:", err)
	}
}
