package upstream

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// maxEcho bounds what echo keeps in memory; a longer body is answered with its beginning.
const maxEcho = 64 << 20

// stallLimit bounds how long a connection is held whose peer's leaving cannot be seen, because what
// the peer sent is deliberately not read.
const stallLimit = time.Minute

// errGone: the peer has left, or the Server is closing; nothing more can be played.
var errGone = errors.New("the peer is gone")

// exchange is one request on the wire, and the means to answer it, rightly or wrongly. What is
// written is flushed when the answer ends, before a wait, and before a cut.
type exchange interface {
	io.Reader // the request's body
	trailer() http.Header

	info(status int, fields []field) error
	// head writes the final header section; last: nothing follows it.
	head(a *answer, last bool) error
	data(p []byte, last bool) error
	// endTrailers ends an answer whose last data was not the last.
	endTrailers(fields []field) error
	// halfHeader writes the beginning of a header section, raw writes bytes that are no HTTP.
	halfHeader(a *answer) error
	raw(p []byte) error

	// wait waits for d. It returns an error as soon as the peer has gone.
	wait(d time.Duration) error
	// untilGone waits for nothing else, and always returns an error.
	untilGone() error
	// cut ends the connection by endFIN or endRST.
	cut(end ending) error
}

// frames are the faults that only HTTP/2 knows.
type frames interface {
	exchange
	// cork lets everything up to the RST_STREAM, or to a wait, go out in one piece.
	cork()
	rst(code http2.ErrCode) error
	// goaway announces the last stream that is processed, and ignores what comes after it.
	goaway(mode string, code http2.ErrCode) error
}

// answer is the header section of a final response.
type answer struct {
	status   int
	fields   []field
	size     int64 // announced length of the body; -1: none
	bodyless bool  // HEAD, 1xx, 204, 304: the length may be announced, no body follows
	closing  bool
	trailers []field
}

// playing is one fault being played for one request.
type playing struct {
	exchange
	rec    *record
	f      *fault
	method string
	expect bool // the client waits for 100 Continue
	kept   []byte
}

var buffers = sync.Pool{New: func() any { b := make([]byte, maxPiece); return &b }}

// run plays the fault. When it returns nil the answer is complete, or ended as the fault wants it.
func (p *playing) run() error {
	for _, status := range p.f.info {
		if err := p.info(status, p.f.fields); err != nil {
			return err
		}
	}
	if p.f.spec.atHead != nil && p.f.spec.atHead(p.f) {
		if p.f.executed == executed {
			p.rec.execute()
		}
	} else if err := p.readAndExecute(); err != nil {
		return err
	}
	if err := p.wait(p.f.delay); err != nil {
		return err
	}
	return p.f.spec.play(p)
}

func (p *playing) readAndExecute() error {
	if err := p.readAll(); err != nil {
		return err
	}
	if p.f.executes() {
		p.rec.execute()
	}
	return nil
}

// readAll reads the rest of the request.
func (p *playing) readAll() error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		err := p.readSome(*buf)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readSome reads a piece of the request; io.EOF says that it was read completely.
func (p *playing) readSome(buf []byte) error {
	if p.expect {
		p.expect = false
		if err := p.info(http.StatusContinue, nil); err != nil {
			return err
		}
	}
	n, err := p.Read(buf)
	if n > 0 {
		p.rec.write(buf[:n])
		if p.f.spec.keepsBody && len(p.kept) < maxEcho {
			p.kept = append(p.kept, buf[:n]...)
		}
	}
	if err == io.EOF {
		p.rec.complete(p.trailer())
	}
	return err
}

// newAnswer is the head of an answer with the body c.
func (p *playing) newAnswer(c content) *answer {
	f := p.f
	now := time.Now().Add(f.clock)
	a := &answer{status: f.status, size: c.size, closing: f.closing, trailers: f.trailers}
	a.bodyless = p.method == http.MethodHead || f.status < 200 || f.status == 204 || f.status == 304
	if f.chunked || len(f.trailers) > 0 {
		a.size = -1
	}
	if f.status < 200 || f.status == 204 {
		a.size = -1 // RFC 9110 section 8.6: no Content-Length
	}
	if !f.noDate {
		a.fields = append(a.fields, field{"date", now.UTC().Format(http.TimeFormat)})
	}
	a.fields = append(a.fields, field{"content-type", "text/plain"})
	for _, value := range f.retryAfter {
		value, _ = dateForm(value, now) // was checked by the parser
		a.fields = append(a.fields, field{"retry-after", value})
	}
	a.fields = append(a.fields, f.fields...)
	return a
}

// answer sends a complete answer.
func (p *playing) answer(a *answer, c content) error {
	if a.bodyless || c.size == 0 && len(a.trailers) == 0 {
		return p.head(a, true)
	}
	if err := p.head(a, false); err != nil {
		return err
	}
	return p.rest(a, c, 0)
}

// rest sends what is left of the body and ends the answer.
func (p *playing) rest(a *answer, c content, from int64) error {
	if err := p.piecewise(c, from, c.size, maxPiece, 0, len(a.trailers) == 0); err != nil {
		return err
	}
	if len(a.trailers) > 0 {
		return p.endTrailers(a.trailers)
	}
	return nil
}

// piecewise sends the bytes from..to of the body in pieces, waiting after each but the last.
func (p *playing) piecewise(c content, from, to, piece int64, every time.Duration, last bool) error {
	piece = min(piece, maxPiece)
	for from < to {
		next := min(from+piece, to)
		if err := p.data(c.slice(from, next), last && next == to); err != nil {
			return err
		}
		if from = next; from < to {
			if err := p.wait(every); err != nil {
				return err
			}
		}
	}
	return nil
}
