package upstream

import (
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// h2stream is one request on an HTTP/2 connection. It implements frames.
type h2stream struct {
	c       *h2conn
	id      uint32
	request *http2.MetaHeadersFrame
	header  http.Header
	gone    chan struct{} // closed when peer or connection ended the stream
	pending []func(*h2writer) error
	corked  bool

	// Guarded by c.mu.
	body           []byte // received, not read
	bodyDone       bool
	declared       int64 // Content-Length; -1: none
	arrived        int64
	requestTrailer http.Header
	recvWindow     int64
	unreturned     int // bytes read, not given back to the peer
	sendWindow     int64
	failed         bool
}

// newH2Stream checks what a request must have (RFC 9113 section 8.3.1). c.mu is held.
func newH2Stream(c *h2conn, f *http2.MetaHeadersFrame) (*h2stream, error) {
	stream := &h2stream{c: c, id: f.StreamID, request: f, header: headerOf(f), gone: make(chan struct{}),
		bodyDone: f.StreamEnded(), declared: -1, recvWindow: initialWindow, sendWindow: c.streamWindow}
	bad := http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
	if f.Truncated || f.PseudoValue("method") == "" || f.PseudoValue("path") == "" {
		return nil, bad
	}
	if length := stream.header.Get("Content-Length"); length != "" {
		n, err := strconv.ParseUint(length, 10, 63)
		if err != nil {
			return nil, bad
		}
		stream.declared = int64(n)
	}
	return stream, nil
}

func headerOf(f *http2.MetaHeadersFrame) http.Header {
	h := make(http.Header)
	for _, field := range f.RegularFields() {
		h.Add(field.Name, field.Value)
	}
	return h
}

// serve answers the request.
func (x *h2stream) serve() {
	defer x.c.forget(x)
	path := x.request.PseudoValue("path")
	_, query, _ := strings.Cut(path, "?")
	in := incoming{query: query, header: x.header}
	hit := Hit{ID: in.id(), Method: x.request.PseudoValue("method"), Path: path,
		Host: x.request.PseudoValue("authority"), Header: x.header, Listener: x.c.listener, Proto: "HTTP/2",
		Conn: x.c.id, Stream: x.id}
	p := &playing{exchange: x, method: hit.Method, expect: expectsContinue(x.header)}
	_ = x.c.s.begin(p, hit, in.script(), http2Frames) // a bad script is what p plays
	err := p.run()
	if errors.Is(err, io.ErrUnexpectedEOF) { // not the announced length: RFC 9113 section 8.1.1
		_ = x.rst(http2.ErrCodeProtocol)
	}
}

// fail ends all waiting on the stream. c.mu is held.
func (x *h2stream) fail() {
	if !x.failed {
		x.failed = true
		close(x.gone)
		x.c.changed.Broadcast()
	}
}

// write sends f, behind what is pending and with nothing in between; corked, it waits for a flush.
func (x *h2stream) write(f func(*h2writer) error) error {
	x.pending = append(x.pending, f)
	if x.corked {
		return nil
	}
	return x.flush()
}

func (x *h2stream) flush() error {
	pending := x.pending
	if x.pending = nil; len(pending) == 0 {
		return nil
	}
	return x.c.out.do(func(w *h2writer) error {
		for _, f := range pending {
			if err := f(w); err != nil {
				return err
			}
		}
		return nil
	})
}

func (x *h2stream) cork() { x.corked = true }

func (x *h2stream) info(status int, fields []field) error {
	return x.write(func(w *h2writer) error { return w.headers(x.id, status, fields, false) })
}

func (x *h2stream) head(a *answer, last bool) error {
	fields := headFields(a)
	write := func(w *h2writer) error { return w.headers(x.id, a.status, fields, last) }
	if a.closing {
		x.c.ignoreAfter(x.id)
		x.c.mu.Lock()
		x.c.closeWhenIdle = true
		x.c.mu.Unlock()
		headers := write
		write = func(w *h2writer) error {
			if err := w.fr.WriteGoAway(x.id, http2.ErrCodeNo, nil); err != nil {
				return err
			}
			return headers(w)
		}
	}
	if last {
		return x.write(write)
	}
	x.pending = append(x.pending, write) // goes out together with the first data
	return nil
}

func headFields(a *answer) []field {
	if a.size < 0 {
		return a.fields
	}
	return append(a.fields, field{"content-length", strconv.FormatInt(a.size, 10)})
}

func (x *h2stream) data(p []byte, last bool) error {
	for len(p) > 0 {
		n, err := x.take(len(p), false)
		if n == 0 && err == nil {
			if err = x.flush(); err == nil {
				n, err = x.take(len(p), true)
			}
		}
		if err != nil {
			return err
		}
		piece, end := p[:n], last && n == len(p)
		p = p[n:]
		if err := x.write(func(w *h2writer) error { return w.fr.WriteData(x.id, end, piece) }); err != nil {
			return err
		}
	}
	return nil
}

func (x *h2stream) endTrailers(fields []field) error {
	return x.write(func(w *h2writer) error { return w.headers(x.id, 0, fields, true) })
}

// halfHeader sends HEADERS without END_HEADERS, in the middle of a field. As no other frame may
// follow it (RFC 9113 section 6.2), the whole connection is silent from here on.
func (x *h2stream) halfHeader(a *answer) error {
	return x.silencing(func(w *h2writer) error {
		block := w.encode(a.status, headFields(a))
		return w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: x.id, BlockFragment: block[:len(block)-1]})
	})
}

func (x *h2stream) raw(p []byte) error {
	return x.silencing(func(w *h2writer) error {
		_, err := w.bw.Write(p)
		return err
	})
}

func (x *h2stream) silencing(f func(*h2writer) error) error {
	x.c.ignoreAfter(0)
	return x.write(func(w *h2writer) error {
		err := f(w)
		if err == nil {
			err = w.bw.Flush()
		}
		w.muted = true
		return err
	})
}

func (x *h2stream) untilGone() error {
	if err := x.flush(); err != nil {
		return err
	}
	<-x.gone
	return errGone
}

func (x *h2stream) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if err := x.flush(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-x.gone:
		return errGone
	}
}

func (x *h2stream) cut(end ending) error {
	x.c.ignoreAfter(0)
	if err := x.flush(); err != nil {
		return err
	}
	return x.c.out.end(end)
}

func (x *h2stream) rst(code http2.ErrCode) error {
	x.corked = false
	return x.write(func(w *h2writer) error { return w.fr.WriteRSTStream(x.id, code) })
}

func (x *h2stream) goaway(mode string, code http2.ErrCode) error {
	last := x.id
	switch mode {
	case "below":
		last = max(x.id, 2) - 2
	case "above":
		last = math.MaxInt32
	}
	x.c.ignoreAfter(last)
	return x.write(func(w *h2writer) error { return w.fr.WriteGoAway(last, code, nil) })
}
