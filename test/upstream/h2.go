package upstream

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Initial values of RFC 9113 section 6.5.2. The upstream does not change those that bind its peer.
const (
	initialWindow = 65535
	minMaxFrame   = 16384
)

// h2conn serves one cleartext HTTP/2 connection, frame by frame. Apart from the faults that are asked
// for it is a correct peer: it acknowledges SETTINGS and PING, and keeps flow control both ways.
type h2conn struct {
	s        *Server
	listener string
	id       int64
	raw      *net.TCPConn
	br       *bufio.Reader
	fr       *http2.Framer // reads
	out      *h2writer
	settings []http2.Setting
	players  sync.WaitGroup

	mu            sync.Mutex
	changed       *sync.Cond // windows, bodies, ends
	streams       map[uint32]*h2stream
	lastID        uint32 // highest stream that the peer has opened
	limitID       uint32 // streams above it are ignored: after GOAWAY
	sendWindow    int64
	streamWindow  int64 // the peer's SETTINGS_INITIAL_WINDOW_SIZE
	received      int   // bytes not given back to the peer's connection window
	closeWhenIdle bool
}

func (s *Server) serveH2(listener string, settings ...http2.Setting) func(*net.TCPConn, int64) {
	return func(raw *net.TCPConn, id int64) {
		br := bufio.NewReader(raw)
		c := &h2conn{s: s, listener: listener, id: id, raw: raw, br: br, fr: http2.NewFramer(nil, br),
			out: newH2Writer(raw), settings: settings, streams: make(map[uint32]*h2stream),
			limitID: math.MaxUint32, sendWindow: initialWindow, streamWindow: initialWindow}
		c.changed = sync.NewCond(&c.mu)
		c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		c.fr.SetMaxReadFrameSize(minMaxFrame)
		c.serve()
	}
}

func (c *h2conn) serve() {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.br, preface); err != nil || string(preface) != http2.ClientPreface {
		lingeringClose(c.raw)
		return
	}
	c.s.wg.Go(c.out.run)
	c.out.post(func(w *h2writer) error { return w.fr.WriteSettings(c.settings...) })
	c.read()
	c.mu.Lock()
	for _, stream := range c.streams {
		stream.fail()
	}
	c.mu.Unlock()
	c.out.close()
	_ = c.raw.Close()
	c.players.Wait()
}

// read handles frames until the connection ends.
func (c *h2conn) read() {
	first := true
	for {
		f, err := c.fr.ReadFrame()
		if err == nil && first {
			if _, ok := f.(*http2.SettingsFrame); !ok {
				err = http2.ConnectionError(http2.ErrCodeProtocol)
			}
		}
		first = false
		if err == nil {
			err = c.frame(f)
		}
		var onStream http2.StreamError
		var onConn http2.ConnectionError
		switch {
		case err == nil:
		case errors.As(err, &onStream):
			c.lastID = max(c.lastID, onStream.StreamID)
			c.refuse(onStream.StreamID, onStream.Code)
		case errors.As(err, &onConn):
			_ = c.out.do(func(w *h2writer) error { return w.fr.WriteGoAway(c.lastID, http2.ErrCode(onConn), nil) })
			lingeringClose(c.raw)
			return
		default:
			return
		}
	}
}

// frame handles one frame. c.lastID is written by this goroutine only.
func (c *h2conn) frame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.headers(f)
	case *http2.DataFrame:
		return c.data(f)
	case *http2.SettingsFrame:
		return c.peerSettings(f)
	case *http2.PingFrame:
		if !f.IsAck() {
			data := f.Data
			c.out.post(func(w *h2writer) error { return w.fr.WritePing(true, data) })
		}
	case *http2.WindowUpdateFrame:
		return c.windowUpdate(f)
	case *http2.RSTStreamFrame:
		if f.StreamID > c.lastID {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.mu.Lock()
		if stream := c.streams[f.StreamID]; stream != nil {
			stream.fail()
		}
		c.mu.Unlock()
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil // GOAWAY, PRIORITY, unknown types
}

func (c *h2conn) headers(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	c.mu.Lock()
	defer c.mu.Unlock()
	if stream := c.streams[id]; stream != nil {
		if stream.bodyDone || !f.StreamEnded() {
			return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
		}
		stream.requestTrailer = headerOf(f)
		stream.endBody()
		return nil
	}
	switch {
	case id%2 == 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case id <= c.lastID: // the end of a stream that was reset here
		return nil
	}
	c.lastID = id
	if id > c.limitID {
		return nil
	}
	for _, setting := range c.settings {
		if setting.ID == http2.SettingMaxConcurrentStreams && len(c.streams) >= int(setting.Val) {
			return http2.StreamError{StreamID: id, Code: http2.ErrCodeRefusedStream}
		}
	}
	stream, err := newH2Stream(c, f)
	if err != nil {
		return err
	}
	c.streams[id] = stream
	c.s.rec.requests.Add(1)
	c.players.Go(stream.serve)
	return nil
}

func (c *h2conn) data(f *http2.DataFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.StreamID > c.lastID {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	// The connection's window is given back whatever the stream does, so that a stream that is not
	// read holds up no other.
	if c.received += int(f.Length); c.received >= initialWindow/4 {
		n := uint32(c.received)
		c.received = 0
		c.out.post(func(w *h2writer) error { return w.fr.WriteWindowUpdate(0, n) })
	}
	stream := c.streams[f.StreamID]
	if stream == nil {
		return nil
	}
	return stream.takeData(f)
}

func (c *h2conn) peerSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := f.Value(http2.SettingInitialWindowSize); ok {
		if n > math.MaxInt32 {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		delta := int64(n) - c.streamWindow
		c.streamWindow = int64(n)
		for _, stream := range c.streams {
			stream.sendWindow += delta
		}
		c.changed.Broadcast()
	}
	table, hasTable := f.Value(http2.SettingHeaderTableSize)
	c.out.post(func(w *h2writer) error {
		if hasTable {
			w.enc.SetMaxDynamicTableSizeLimit(table)
		}
		return w.fr.WriteSettingsAck()
	})
	return nil
}

func (c *h2conn) windowUpdate(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	if f.StreamID == 0 {
		if c.sendWindow += int64(f.Increment); c.sendWindow > math.MaxInt32 {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		return nil
	}
	if stream := c.streams[f.StreamID]; stream != nil {
		if stream.sendWindow += int64(f.Increment); stream.sendWindow > math.MaxInt32 {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
		}
	}
	return nil
}

// refuse resets a stream because of what the peer did.
func (c *h2conn) refuse(id uint32, code http2.ErrCode) {
	c.mu.Lock()
	if stream := c.streams[id]; stream != nil {
		stream.fail()
	}
	c.mu.Unlock()
	c.out.post(func(w *h2writer) error { return w.fr.WriteRSTStream(id, code) })
}

// forget ends the bookkeeping of a stream.
func (c *h2conn) forget(stream *h2stream) {
	c.mu.Lock()
	delete(c.streams, stream.id)
	stream.fail()
	idle := c.closeWhenIdle && len(c.streams) == 0
	c.mu.Unlock()
	if idle {
		_ = c.out.end(endFIN)
	}
}

// ignoreAfter drops streams that are opened after id.
func (c *h2conn) ignoreAfter(id uint32) {
	c.mu.Lock()
	c.limitID = min(c.limitID, id)
	c.mu.Unlock()
}
