package upstream

import (
	"io"
	"net/http"

	"golang.org/x/net/http2"
)

// takeData stores what the peer sent. c.mu is held.
func (x *h2stream) takeData(f *http2.DataFrame) error {
	x.recvWindow -= int64(f.Length)
	switch {
	case x.failed:
		return nil
	case x.bodyDone:
		return http2.StreamError{StreamID: x.id, Code: http2.ErrCodeStreamClosed}
	case x.recvWindow < 0:
		return http2.StreamError{StreamID: x.id, Code: http2.ErrCodeFlowControl}
	}
	x.body = append(x.body, f.Data()...)
	x.arrived += int64(len(f.Data()))
	x.unreturned += int(f.Length) - len(f.Data()) // padding is never read
	if f.StreamEnded() {
		x.endBody()
	}
	x.c.changed.Broadcast()
	return nil
}

// endBody: END_STREAM has arrived. c.mu is held.
func (x *h2stream) endBody() {
	x.bodyDone = true
	x.c.changed.Broadcast()
}

func (x *h2stream) Read(p []byte) (int, error) {
	c := x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(x.body) == 0 && !x.bodyDone && !x.failed {
		c.changed.Wait()
	}
	if len(x.body) == 0 {
		switch {
		case !x.bodyDone:
			return 0, errGone
		case x.declared >= 0 && x.declared != x.arrived:
			return 0, io.ErrUnexpectedEOF
		}
		return 0, io.EOF
	}
	n := copy(p, x.body)
	x.body = x.body[n:]
	if x.unreturned += n; x.unreturned >= initialWindow/4 && !x.bodyDone {
		n := uint32(x.unreturned)
		x.recvWindow += int64(n)
		x.unreturned = 0
		c.out.post(func(w *h2writer) error { return w.fr.WriteWindowUpdate(x.id, n) })
	}
	return n, nil
}

func (x *h2stream) trailer() http.Header {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	return x.requestTrailer
}

// take takes up to n bytes from both windows that the peer has opened; it waits for one if it may.
func (x *h2stream) take(n int, wait bool) (int, error) {
	c := x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if x.failed {
			return 0, errGone
		}
		if may := min(int64(n), minMaxFrame, c.sendWindow, x.sendWindow); may > 0 {
			c.sendWindow -= may
			x.sendWindow -= may
			return int(may), nil
		}
		if !wait {
			return 0, nil
		}
		c.changed.Wait()
	}
}
