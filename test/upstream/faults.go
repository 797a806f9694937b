package upstream

import (
	"encoding/binary"
	"io"

	"golang.org/x/net/http2"
)

func (p *playing) status() error {
	c := p.f.content(statusText(p.f.status))
	return p.answer(p.newAnswer(c), c)
}

func (p *playing) echo() error {
	c := content{text: p.kept, size: int64(len(p.kept))}
	return p.answer(p.newAnswer(c), c)
}

func (p *playing) notReading() error { return p.untilGone() }

func (p *playing) garbage() error {
	if err := p.raw([]byte("220 this is not HTTP\r\n\x00\x01\x02\xff\r\n\r\n")); err != nil {
		return err
	}
	return p.breakOff()
}

func (p *playing) halfHeader() error {
	c := p.f.content(statusText(p.f.status))
	if err := p.exchange.halfHeader(p.newAnswer(c)); err != nil {
		return err
	}
	return p.breakOff()
}

// breakOff waits for the option hold, then ends the connection as the fault says.
func (p *playing) breakOff() error {
	if p.f.end == endStall {
		return p.untilGone()
	}
	if err := p.wait(p.f.hold); err != nil {
		return err
	}
	return p.cut(p.f.end)
}

func (p *playing) halfBody() error {
	c := p.f.content(nil)
	a := p.newAnswer(c)
	if err := p.head(a, false); err != nil {
		return err
	}
	if !a.bodyless {
		if err := p.piecewise(c, 0, c.size/2, maxPiece, 0, false); err != nil {
			return err
		}
	}
	return p.breakOff()
}

func (p *playing) slowBody() error {
	c := p.f.content(statusText(p.f.status))
	return p.afterHead(c, func(a *answer) error {
		if err := p.wait(p.f.hold); err != nil {
			return err
		}
		return p.rest(a, c, 0)
	})
}

func (p *playing) trickle() error {
	c := p.f.content(nil)
	return p.afterHead(c, func(a *answer) error {
		// The last piece is sent by rest, which also ends the answer.
		last := max(0, c.size-p.f.piece)
		if err := p.piecewise(c, 0, last, p.f.piece, p.f.every, false); err != nil {
			return err
		}
		if err := p.wait(p.f.every); err != nil {
			return err
		}
		return p.rest(a, c, last)
	})
}

// afterHead sends a head and, if a body belongs to it, calls body.
func (p *playing) afterHead(c content, body func(*answer) error) error {
	a := p.newAnswer(c)
	if a.bodyless || c.size == 0 {
		return p.answer(a, c)
	}
	if err := p.head(a, false); err != nil {
		return err
	}
	return body(a)
}

// early answers after the first bytes of the request's body.
func (p *playing) early() error {
	buf := buffers.Get().(*[]byte)
	err := p.readSome(*buf)
	buffers.Put(buf)
	complete := err == io.EOF
	if err != nil && !complete {
		return err
	}
	if p.f.end == endNoError {
		p.exchange.(frames).cork()
	}
	if err := p.status(); err != nil {
		return err
	}
	switch p.f.end {
	case endDrain:
		if complete {
			return nil
		}
		return p.readAll()
	case endNoError:
		if err := p.wait(p.f.hold); err != nil {
			return err
		}
		return p.exchange.(frames).rst(http2.ErrCodeNo)
	}
	return p.breakOff()
}

// grpc answers with grpc-status in the only header section, or in trailers behind one message.
func (p *playing) grpc() error {
	f := p.f
	status := f.trailers[0]
	f.trailers = f.trailers[1:]
	message := content{text: binary.BigEndian.AppendUint32([]byte{0}, 2), size: 7}
	message.text = append(message.text, "ok"...)
	a := p.newAnswer(message)
	for i := range a.fields {
		if a.fields[i].name == "content-type" {
			a.fields[i].value = "application/grpc"
			break
		}
	}
	fields := append([]field{status, {"grpc-message", "status " + status.value}}, f.trailers...)
	if f.mode == "" {
		a.fields = append(a.fields, fields...)
		a.trailers, a.size = nil, 0
		return p.answer(a, content{})
	}
	a.trailers, a.size = fields, -1
	return p.answer(a, message)
}

// rst ends the stream at one of four places of an answer.
func (p *playing) rst() error {
	stream := p.exchange.(frames)
	stream.cork()
	f := p.f
	c := f.content(nil)
	var err error
	switch f.mode {
	case "after-headers":
		err = p.head(p.newAnswer(c), false)
	case "after-body":
		a := p.newAnswer(c)
		if err = p.head(a, false); err == nil && !a.bodyless {
			err = p.piecewise(c, 0, c.size/2, maxPiece, 0, false)
		}
	case "full":
		err = p.answer(p.newAnswer(c), c)
	}
	if err == nil {
		err = p.wait(f.hold)
	}
	if err != nil {
		return err
	}
	return stream.rst(f.code)
}

// goaway says which streams are not processed, and keeps its word.
func (p *playing) goaway() error {
	if err := p.exchange.(frames).goaway(p.f.mode, p.f.code); err != nil {
		return err
	}
	switch {
	case !p.f.open:
		return p.breakOff()
	case p.f.mode == "below":
		return nil // the stream is never answered
	}
	return p.status()
}
