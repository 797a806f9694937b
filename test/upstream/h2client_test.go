package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2client speaks HTTP/2 frame by frame on one connection of its own.
type h2client struct {
	t        *testing.T
	conn     net.Conn
	fr       *http2.Framer
	hb       bytes.Buffer
	enc      *hpack.Encoder
	settings map[http2.SettingID]uint32
	windows  map[uint32]int // WINDOW_UPDATE received, by stream
	acks     int
	nextID   uint32
	reset    bool // seen by a write
	noWindow bool // do not give windows back
}

func dialH2(t *testing.T, addr string, settings ...http2.Setting) *h2client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	c := &h2client{t: t, conn: conn, fr: http2.NewFramer(conn, conn), settings: map[http2.SettingID]uint32{},
		windows: map[uint32]int{}, nextID: 1}
	c.fr.SetMaxReadFrameSize(16384)
	c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.hb)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c.must(c.fr.WriteSettings(settings...))
	return c
}

func (c *h2client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// open sends a request's HEADERS and returns its stream.
func (c *h2client) open(end bool, id, script string, more ...string) uint32 {
	c.t.Helper()
	method := "POST"
	if end {
		method = "GET"
	}
	c.hb.Reset()
	fields := append([]string{":method", method, ":scheme", "http", ":path", "/p?x=1", ":authority", "up",
		"x-test-id", id, "x-fault", script}, more...)
	for i := 0; i < len(fields); i += 2 {
		c.must(c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	stream := c.nextID
	c.nextID += 2
	c.must(c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.hb.Bytes(), EndStream: end,
		EndHeaders: true}))
	return stream
}

// post sends a complete POST with a body of 10 bytes.
func (c *h2client) post(id, script string) uint32 {
	c.t.Helper()
	stream := c.open(false, id, script, "content-length", "10")
	c.must(c.fr.WriteData(stream, true, []byte("0123456789")))
	return stream
}

// trace reads frames until one of them, as text, contains last, and returns them all as text. Data of
// one stream is summed up; a trailing "." is END_STREAM. The end of the connection is FIN or RST.
func (c *h2client) trace(last string) string {
	c.t.Helper()
	var frames []string
	data, from := 0, uint32(0)
	flush := func(end string) {
		if data > 0 || end != "" {
			frames = append(frames, fmt.Sprintf("DATA %d %d%s", from, data, end))
		}
		data = 0
	}
	for {
		f, err := c.fr.ReadFrame()
		text := ""
		switch f := f.(type) {
		case *http2.DataFrame:
			if f.StreamID != from {
				flush("")
			}
			from = f.StreamID
			data += len(f.Data())
			if n := uint32(len(f.Data())); n > 0 && !c.noWindow {
				c.must(c.fr.WriteWindowUpdate(0, n))
				if !f.StreamEnded() {
					c.must(c.fr.WriteWindowUpdate(f.StreamID, n))
				}
			}
			if f.StreamEnded() {
				flush(".")
				text = frames[len(frames)-1]
				frames = frames[:len(frames)-1]
			}
		default:
			text = c.control(f, err)
		}
		if text == "" {
			continue
		}
		flush("")
		frames = append(frames, text)
		joined := strings.Join(frames, ", ")
		switch {
		case strings.Contains(text, last):
			return joined
		case err != nil:
			c.t.Fatalf("expected %q, got %q", last, joined)
		}
	}
}

// ping waits until the upstream has handled all frames sent so far; what else arrives is not returned.
func (c *h2client) ping() {
	c.t.Helper()
	c.must(c.fr.WritePing(false, [8]byte{}))
	c.trace("PING")
}

// control handles the frames other than DATA; "" is nothing to show.
func (c *h2client) control(f http2.Frame, err error) string {
	c.t.Helper()
	if err != nil {
		switch {
		case c.reset || errors.Is(err, syscall.ECONNRESET):
			return "RST"
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "silence"
		case strings.HasSuffix(err.Error(), "EOF"):
			return "FIN"
		}
		return err.Error()
	}
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			c.acks++
			return ""
		}
		c.must(f.ForeachSetting(func(s http2.Setting) error { c.settings[s.ID] = s.Val; return nil }))
		// A reset is reported once, to whoever comes first.
		c.reset = errors.Is(c.fr.WriteSettingsAck(), syscall.ECONNRESET)
		return ""
	case *http2.WindowUpdateFrame:
		c.windows[f.StreamID] += int(f.Increment)
		return ""
	case *http2.MetaHeadersFrame:
		text := fmt.Sprintf("HEADERS %d", f.StreamID)
		for _, field := range f.Fields {
			switch field.Name {
			case ":status":
				text += " " + field.Value
			case "date", "content-type":
			default:
				text += " " + field.Name + "=" + field.Value
			}
		}
		if f.StreamEnded() {
			text += "."
		}
		return text
	case *http2.RSTStreamFrame:
		return fmt.Sprintf("RST_STREAM %d %v", f.StreamID, f.ErrCode)
	case *http2.GoAwayFrame:
		return fmt.Sprintf("GOAWAY %d %v", f.LastStreamID, f.ErrCode)
	case *http2.PingFrame:
		return fmt.Sprintf("PING %s %v", f.Data[:], f.IsAck())
	}
	return fmt.Sprintf("%T", f)
}

// silence returns what arrives within d.
func (c *h2client) silence(d time.Duration) string {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(d))
	got := c.trace("silence")
	_ = c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	return got
}
