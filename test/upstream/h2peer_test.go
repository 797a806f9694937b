package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func TestMaxConcurrentStreams(t *testing.T) {
	s := start(t)
	c := dialH2(t, s.Addrs().H2One)
	c.post("a", "ok delay=400ms")
	c.post("b", "ok")
	if got := c.trace("DATA 1"); got != "RST_STREAM 3 REFUSED_STREAM, HEADERS 1 200 content-length=3, DATA 1 3." {
		t.Error(got)
	}
	if c.settings[http2.SettingMaxConcurrentStreams] != 1 {
		t.Errorf("settings %v", c.settings)
	}
	wantHits(t, s, "b", 0, 0)

	c = dialH2(t, s.Addrs().H2)
	c.post("c", "ok")
	c.trace("DATA 1")
	if _, limited := c.settings[http2.SettingMaxConcurrentStreams]; limited {
		t.Errorf("settings %v", c.settings)
	}
}

// TestItIsACorrectPeer covers what every HTTP/2 peer must do.
func TestItIsACorrectPeer(t *testing.T) {
	s := start(t)
	t.Run("settings and ping", func(t *testing.T) {
		c := dialH2(t, s.Addrs().H2)
		c.must(c.fr.WritePing(false, [8]byte{'p', 'i', 'n', 'g', '1', '2', '3', '4'}))
		if got := c.trace("PING"); got != "PING ping1234 true" || c.acks != 1 {
			t.Errorf("%s, %d acks", got, c.acks)
		}
	})
	t.Run("stream window", func(t *testing.T) {
		c := dialH2(t, s.Addrs().H2, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
		c.noWindow = true
		stream := c.post("w", "ok body=300")
		if got := c.silence(50 * time.Millisecond); got != "HEADERS 1 200 content-length=300, DATA 1 100, silence" {
			t.Error(got)
		}
		c.must(c.fr.WriteWindowUpdate(stream, 50))
		if got := c.silence(50 * time.Millisecond); got != "DATA 1 50, silence" {
			t.Error(got)
		}
		c.must(c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 250}))
		if got := c.trace("."); got != "DATA 1 150." {
			t.Error(got)
		}
	})
	t.Run("connection window", func(t *testing.T) {
		c := dialH2(t, s.Addrs().H2, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		c.noWindow = true
		c.post("cw", "ok body=100000")
		if got := c.silence(100 * time.Millisecond); got != "HEADERS 1 200 content-length=100000, DATA 1 65535, silence" {
			t.Error(got)
		}
		c.must(c.fr.WriteWindowUpdate(0, 100000))
		if got := c.trace("."); got != "DATA 1 34465." {
			t.Error(got)
		}
	})
	t.Run("upload beyond the window", func(t *testing.T) {
		c := dialH2(t, s.Addrs().H2)
		stream := c.open(false, "over", "not-reading")
		for range 7 {
			c.must(c.fr.WriteData(stream, false, Body(16000)))
		}
		if got := c.silence(50 * time.Millisecond); got != "RST_STREAM 1 FLOW_CONTROL_ERROR, silence" {
			t.Error(got)
		}
	})
	t.Run("padding is given back", func(t *testing.T) {
		c := dialH2(t, s.Addrs().H2)
		stream := c.open(false, "pad", "ok")
		for i := range 600 { // 200 bytes of window each, one of them body
			c.must(c.fr.WriteDataPadded(stream, false, []byte("x"), make([]byte, 198)))
			for 65535+c.windows[stream]-200*(i+1) < 200 {
				c.ping()
			}
		}
		c.must(c.fr.WriteData(stream, true, nil))
		c.trace("DATA 1")
		if h := wantHits(t, s, "pad", 1, 1)[0]; h.BodyBytes != 600 {
			t.Errorf("%+v", h)
		}
	})
	t.Run("malformed requests", func(t *testing.T) {
		c := dialH2(t, s.Addrs().H2)
		stream := c.open(false, "len", "ok", "content-length", "20")
		c.must(c.fr.WriteData(stream, true, []byte("0123456789")))
		c.trace("RST_STREAM 1 PROTOCOL_ERROR")
		c.open(true, "len", "ok", "content-length", "-1")
		c.trace("RST_STREAM 3 PROTOCOL_ERROR")
		wantHits(t, s, "len", 1, 0)
		c.must(c.fr.WriteData(99, true, nil))
		if got := c.trace("FIN"); got != "GOAWAY 3 PROTOCOL_ERROR, FIN" {
			t.Error(got)
		}
	})
	t.Run("no preface", func(t *testing.T) {
		c := dial(t, s.Addrs().H2)
		c.send("GET / HTTP/1.1", "Host: up", "x: 0123456789", "", "")
		if got, end := c.end(); got != "" || end != endFIN {
			t.Errorf("%q, %v", got, end)
		}
	})
}

// TestWithAnotherImplementation lets net/http's HTTP/2 client talk to it, with much traffic both ways.
func TestWithAnotherImplementation(t *testing.T) {
	s := start(t)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	body := Body(3_000_000)
	sum := sha256.Sum256(body)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			id := string(rune('a' + i))
			req, _ := http.NewRequestWithContext(soon(t), "POST", "http://"+s.Addrs().H2+"/"+id, bytes.NewReader(body))
			req.Header.Set("X-Test-Id", id)
			req.Header.Set("X-Fault", "echo trailer:x-t=1")
			req.Trailer = http.Header{"X-Up": {"1"}}
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, body) || resp.Trailer.Get("X-T") != "1" || resp.ProtoMajor != 2 {
				t.Errorf("%d bytes, %v, trailers %v", len(got), err, resp.Trailer)
			}
			h := s.Hits(id)[0]
			if h.BodySHA256 != hex.EncodeToString(sum[:]) || !h.Complete || h.Proto != "HTTP/2" || h.Stream == 0 ||
				h.Trailer.Get("X-Up") != "1" || h.Listener != "h2" {
				t.Errorf("%+v", h)
			}
		})
	}
	group.Wait()
}

// TestBothWriteMuch: a peer that writes without reading is not blocked by one that does the same.
func TestBothWriteMuch(t *testing.T) {
	s := start(t)
	c := dialH2(t, s.Addrs().H2, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	c.must(c.fr.WriteWindowUpdate(0, 1<<30))
	c.open(true, "down", "ok body=40MB")
	for range 100_000 { // 1.7 MB of PING, each of which wants an answer
		if err := c.fr.WritePing(false, [8]byte{}); err != nil {
			t.Fatal("the upstream has stopped reading:", err)
		}
	}
}

func TestCloseEndsEveryStream(t *testing.T) {
	s, err := Start(Addrs{})
	if err != nil {
		t.Fatal(err)
	}
	c := dialH2(t, s.Addrs().H2)
	for _, script := range []string{"stuck", "not-reading", "ok delay=10m", "early end=stall", "half-body end=stall", "goaway:below:open"} {
		c.post(script, script)
		if _, err := s.WaitHits(soon(t), script, 1); err != nil {
			t.Fatal(script, err)
		}
	}
	blocked := dialH2(t, s.Addrs().H2)
	blocked.noWindow = true
	blocked.post("blocked", "ok body=2MB")
	if _, err := s.WaitHits(soon(t), "blocked", 1); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Close hangs")
	}
}
