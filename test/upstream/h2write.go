package upstream

import (
	"bufio"
	"bytes"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2writer is the only goroutine that writes to an HTTP/2 connection. Reading never waits for it, so
// that two peers who both write much cannot block each other.
type h2writer struct {
	raw *net.TCPConn
	bw  *bufio.Writer
	fr  *http2.Framer
	hb  bytes.Buffer
	enc *hpack.Encoder

	mu    sync.Mutex
	ready *sync.Cond
	queue []h2op
	over  bool // nothing more is accepted
	muted bool // what is accepted is thrown away: after bytes that are no frames
}

// h2op is what is written without anything in between.
type h2op struct {
	write     func(*h2writer) error
	done      chan error // nil: nobody waits
	evenMuted bool
}

func newH2Writer(raw *net.TCPConn) *h2writer {
	w := &h2writer{raw: raw, bw: bufio.NewWriterSize(raw, 32<<10)}
	w.fr = http2.NewFramer(w.bw, nil)
	w.fr.AllowIllegalWrites = true
	w.enc = hpack.NewEncoder(&w.hb)
	w.ready = sync.NewCond(&w.mu)
	return w
}

// post writes a control frame some time soon.
func (w *h2writer) post(write func(*h2writer) error) { w.enqueue(h2op{write: write}) }

// do returns when it was written.
func (w *h2writer) do(write func(*h2writer) error) error {
	return w.await(h2op{write: write})
}

// end ends the connection behind what was written, also when the writer is muted.
func (w *h2writer) end(end ending) error {
	return w.await(h2op{write: func(w *h2writer) error { return w.cut(end) }, evenMuted: true})
}

func (w *h2writer) await(op h2op) error {
	op.done = make(chan error, 1)
	if !w.enqueue(op) {
		return errGone
	}
	return <-op.done
}

func (w *h2writer) enqueue(op h2op) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	w.queue = append(w.queue, op)
	w.ready.Signal()
	return true
}

// close ends run. What is still queued fails.
func (w *h2writer) close() {
	w.mu.Lock()
	w.over = true
	w.ready.Signal()
	w.mu.Unlock()
}

// run writes until close, or until the connection fails.
func (w *h2writer) run() {
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.over {
			w.ready.Wait()
		}
		ops, over := w.queue, w.over
		w.queue = nil
		w.mu.Unlock()
		if len(ops) == 0 && over {
			return
		}
		var err error
		for _, op := range ops {
			if err == nil && (!w.muted || op.evenMuted) {
				err = op.write(w)
			}
		}
		if err == nil && !w.muted {
			err = w.bw.Flush()
		}
		if err != nil {
			w.close()
			_ = w.raw.SetReadDeadline(time.Now()) // the reader ends, too
		}
		for _, op := range ops {
			if op.done != nil {
				op.done <- err
			}
		}
	}
}

// headers writes a header section; status 0: trailers.
func (w *h2writer) headers(stream uint32, status int, fields []field, end bool) error {
	block := w.encode(status, fields)
	first := block[:min(len(block), minMaxFrame)]
	block = block[len(first):]
	err := w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: end,
		EndHeaders: len(block) == 0})
	for err == nil && len(block) > 0 {
		next := block[:min(len(block), minMaxFrame)]
		block = block[len(next):]
		err = w.fr.WriteContinuation(stream, len(block) == 0, next)
	}
	return err
}

func (w *h2writer) encode(status int, fields []field) []byte {
	w.hb.Reset()
	if status > 0 {
		_ = w.enc.WriteField(hpack.HeaderField{Name: ":status", Value: string(appendStatus(nil, status))})
	}
	for _, f := range fields {
		_ = w.enc.WriteField(hpack.HeaderField{Name: strings.ToLower(f.name), Value: f.value})
	}
	return w.hb.Bytes()
}

// cut ends the connection behind what was written.
func (w *h2writer) cut(end ending) error {
	err := w.bw.Flush()
	if end == endRST {
		_ = w.raw.SetLinger(0)
		_ = w.raw.Close()
	} else {
		_ = w.raw.CloseWrite()
		// The reader goes on for as long, so that unread bytes do not turn the close into a RST.
		_ = w.raw.SetReadDeadline(time.Now().Add(lingerLimit))
	}
	w.muted = true
	return err
}
