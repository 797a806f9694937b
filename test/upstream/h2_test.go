package upstream

import (
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// TestFramesOfEachFault compares the whole trace of one POST with a body of 10 bytes on stream 1.
func TestFramesOfEachFault(t *testing.T) {
	s := start(t)
	for _, test := range []struct {
		script  string
		trace   string // up to and including the last frame
		then    string // what arrives within 50 ms afterwards
		effects int
	}{
		{"ok", "HEADERS 1 200 content-length=3, DATA 1 3.", "silence", 1},
		{"status:503 retry-after=1 retry-after=7", "HEADERS 1 503 retry-after=1 retry-after=7 content-length=24, DATA 1 24.", "silence", 1},
		{"204", "HEADERS 1 204.", "silence", 1},
		{"ok body=0", "HEADERS 1 200 content-length=0.", "silence", 1},
		{"echo", "HEADERS 1 200 content-length=10, DATA 1 10.", "silence", 1},
		{"ok info=103 header:Link=x", "HEADERS 1 103 link=x, HEADERS 1 200 link=x content-length=3, DATA 1 3.", "silence", 1},
		{"ok trailer:X-T=1", "HEADERS 1 200, DATA 1 3, HEADERS 1 x-t=1.", "silence", 1},
		{"grpc:14", "HEADERS 1 200 grpc-status=14 grpc-message=status 14 content-length=0.", "silence", 1},
		{"grpc:0:trailers", "HEADERS 1 200, DATA 1 7, HEADERS 1 grpc-status=0 grpc-message=status 0.", "silence", 1},

		{"refused", "RST_STREAM 1 REFUSED_STREAM", "silence", 0},
		{"refused info=103", "HEADERS 1 103, RST_STREAM 1 REFUSED_STREAM", "silence", 0},
		{"refused executed", "RST_STREAM 1 REFUSED_STREAM", "silence", 1},
		{"rst:CANCEL", "RST_STREAM 1 CANCEL", "silence", 1},
		{"rst:NO_ERROR", "RST_STREAM 1 NO_ERROR", "silence", 1},
		{"rst:ENHANCE_YOUR_CALM", "RST_STREAM 1 ENHANCE_YOUR_CALM", "silence", 1},
		{"rst:INTERNAL_ERROR:after-headers", "HEADERS 1 200 content-length=1000, RST_STREAM 1 INTERNAL_ERROR", "silence", 1},
		{"rst:CANCEL:after-body body=200KiB", "HEADERS 1 200 content-length=204800, DATA 1 102400, RST_STREAM 1 CANCEL", "silence", 1},
		{"rst:NO_ERROR:full", "HEADERS 1 200 content-length=1000, DATA 1 1000., RST_STREAM 1 NO_ERROR", "silence", 1},

		{"goaway:below", "GOAWAY 0 NO_ERROR, FIN", "", 0},
		{"goaway:below code=ENHANCE_YOUR_CALM", "GOAWAY 0 ENHANCE_YOUR_CALM, FIN", "", 0},
		{"goaway:below end=rst hold=20ms", "GOAWAY 0 NO_ERROR, RST", "", 0},
		{"goaway:below:open", "GOAWAY 0 NO_ERROR", "silence", 0},
		{"goaway:at", "GOAWAY 1 NO_ERROR, FIN", "", 1},
		{"goaway:at:open", "GOAWAY 1 NO_ERROR, HEADERS 1 200 content-length=3, DATA 1 3.", "silence", 1},
		{"goaway:above", "GOAWAY 2147483647 NO_ERROR, FIN", "", 1},
		{"goaway:above:open", "GOAWAY 2147483647 NO_ERROR, HEADERS 1 200 content-length=3, DATA 1 3.", "silence", 1},

		{"reset", "RST", "", 1},
		{"reset:head", "RST", "", 0},
		{"fin", "FIN", "", 1},
		{"half-body:503", "HEADERS 1 503 content-length=1000, DATA 1 500, FIN", "", 1},
		{"half-body hold=30ms end=rst", "HEADERS 1 200 content-length=1000, DATA 1 500, RST", "", 1},
		{"half-body end=stall", "HEADERS 1 200 content-length=1000", "DATA 1 500, silence", 1},
		{"503 close", "GOAWAY 1 NO_ERROR, HEADERS 1 503 content-length=24, DATA 1 24., FIN", "", 1},
		{"trickle body=30 piece=10 every=10ms", "HEADERS 1 200 content-length=30, DATA 1 30.", "silence", 1},
		{"slow-body:503 hold=10ms", "HEADERS 1 503 content-length=24, DATA 1 24.", "silence", 1},
		{"early:503", "HEADERS 1 503 content-length=24, DATA 1 24.", "silence", 0},
	} {
		t.Run(test.script, func(t *testing.T) {
			c := dialH2(t, s.Addrs().H2)
			if strings.HasPrefix(test.script, "reset:head") {
				c.open(false, test.script, test.script)
			} else {
				c.post(test.script, test.script)
			}
			last := test.trace[strings.LastIndex(test.trace, ", ")+1:]
			if got := c.trace(strings.TrimSpace(last)); got != test.trace {
				t.Errorf("got  %s\nwant %s", got, test.trace)
			}
			if test.then != "" {
				if got := c.silence(50 * time.Millisecond); got != test.then {
					t.Errorf("then %s, want %s", got, test.then)
				}
			}
			wantHits(t, s, test.script, 1, test.effects)
		})
	}
}

func TestGarbageAndHalfHeaderInFrames(t *testing.T) {
	s := start(t)
	c := dialH2(t, s.Addrs().H2)
	c.post("garbage", "garbage")
	if got := c.trace(""); got != "http2: frame too large" {
		t.Errorf("garbage was read as %s", got)
	}

	c = dialH2(t, s.Addrs().H2)
	c.fr.ReadMetaHeaders = nil
	c.post("half", "half-header:503")
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := f.(*http2.HeadersFrame); ok {
			if h.HeadersEnded() {
				t.Error("END_HEADERS is set")
			}
			break
		}
	}
	if _, err := c.fr.ReadFrame(); err != io.EOF {
		t.Errorf("after half a header: %v", err)
	}
	wantHits(t, s, "half", 1, 1)

	c = dialH2(t, s.Addrs().H2)
	c.fr.ReadMetaHeaders = nil
	c.post("stall", "half-header end=stall")
	c.must(c.fr.WritePing(false, [8]byte{}))
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := f.(*http2.HeadersFrame); ok {
			break
		}
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if f, err := c.fr.ReadFrame(); err == nil {
		t.Errorf("after half a header: %v", f)
	}
}

func TestGoAwayOnALaterStream(t *testing.T) {
	s := start(t)
	c := dialH2(t, s.Addrs().H2)
	c.post("first", "ok delay=400ms")
	if _, err := s.WaitHits(soon(t), "first", 1); err != nil {
		t.Fatal(err)
	}
	c.post("third", "goaway:below:open")
	if got := c.trace("GOAWAY"); got != "GOAWAY 1 NO_ERROR" {
		t.Error(got)
	}
	c.post("fifth", "ok") // above the announced id: never processed
	if got := c.trace("DATA 1"); got != "HEADERS 1 200 content-length=3, DATA 1 3." {
		t.Error(got)
	}
	if got := c.silence(100 * time.Millisecond); got != "silence" {
		t.Error(got)
	}
	wantHits(t, s, "third", 1, 0)
	wantHits(t, s, "fifth", 0, 0)
}

func TestStuckStreamHoldsUpNoOther(t *testing.T) {
	s := start(t)
	c := dialH2(t, s.Addrs().H2)
	stuck := c.post("stuck", "stuck")
	c.post("other", "ok")
	if got := c.trace("DATA 3"); got != "HEADERS 3 200 content-length=3, DATA 3 3." {
		t.Error(got)
	}
	wantHits(t, s, "stuck", 1, 1)
	c.must(c.fr.WriteRSTStream(stuck, http2.ErrCodeCancel))
	c.post("third", "ok")
	c.trace("DATA 5")
}

func TestNotReadingGivesNoWindow(t *testing.T) {
	s := start(t)
	c := dialH2(t, s.Addrs().H2)
	stuck := c.open(false, "nr", "not-reading")
	for range 4 {
		c.must(c.fr.WriteData(stuck, false, Body(16000)))
	}
	next := c.open(false, "reads", "ok")
	for range 3 {
		c.must(c.fr.WriteData(next, false, Body(16000)))
	}
	for c.windows[next] == 0 {
		c.ping()
	}
	c.must(c.fr.WriteData(next, true, nil))
	c.trace("DATA 3")
	if c.windows[stuck] != 0 || c.windows[0] < 6*16000 {
		t.Errorf("window updates %v", c.windows)
	}
	if hits := wantHits(t, s, "nr", 1, 0); hits[0].BodyBytes != 0 {
		t.Errorf("%+v", hits[0])
	}
}

func TestEarlyAnswersInFrames(t *testing.T) {
	s := start(t)
	for _, test := range []struct {
		script, trace string
		then          string
		reads         bool
	}{
		{"early:503", "HEADERS 1 503 content-length=24, DATA 1 24.", "silence", true},
		{"early:503 end=stall", "HEADERS 1 503 content-length=24, DATA 1 24.", "silence", false},
		{"early:503 end=no_error", "HEADERS 1 503 content-length=24, DATA 1 24., RST_STREAM 1 NO_ERROR", "silence", false},
		{"early:503 end=fin", "HEADERS 1 503 content-length=24, DATA 1 24., FIN", "", false},
	} {
		t.Run(test.script, func(t *testing.T) {
			c := dialH2(t, s.Addrs().H2)
			stream := c.open(false, test.script, test.script)
			c.must(c.fr.WriteData(stream, false, []byte("0123456789")))
			last := test.trace[strings.LastIndex(test.trace, ", ")+2:]
			if got := c.trace(last); got != test.trace {
				t.Errorf("got  %s\nwant %s", got, test.trace)
			}
			if test.then == "" {
				return
			}
			_ = c.fr.WriteData(stream, true, []byte("0123456789"))
			if got := c.silence(50 * time.Millisecond); got != test.then {
				t.Errorf("then %s", got)
			}
			if h := wantHits(t, s, test.script, 1, 0)[0]; h.Complete != test.reads || (h.BodyBytes == 20) != test.reads {
				t.Errorf("%+v", h)
			}
		})
	}
}

func TestBadScriptInFrames(t *testing.T) {
	s := start(t)
	c := dialH2(t, s.Addrs().H2)
	c.post("bad", "ok, keepalive-race")
	if got := c.trace("."); !strings.HasPrefix(got, "HEADERS 1 400 ") {
		t.Error(got)
	}
	wantHits(t, s, "bad", 1, 0)
}
