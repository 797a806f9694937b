package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

// h1exchange implements exchange.
type h1exchange struct {
	c        *h1conn
	req      *http.Request
	bodyRead bool
	chunked  bool
	closing  bool
}

func (x *h1exchange) Read(p []byte) (int, error) {
	n, err := x.req.Body.Read(p)
	x.bodyRead = x.bodyRead || err == io.EOF
	return n, err
}

func (x *h1exchange) trailer() http.Header { return x.req.Trailer }

func (x *h1exchange) startHead(status int, fields []field) []byte {
	b := append(x.c.bw.AvailableBuffer(), "HTTP/1.1 "...)
	b = append(appendStatus(b, status), ' ')
	b = append(append(b, http.StatusText(status)...), "\r\n"...)
	for _, f := range fields {
		b = append(append(append(append(b, f.name...), ": "...), f.value...), "\r\n"...)
	}
	return b
}

func (x *h1exchange) info(status int, fields []field) error {
	_, _ = x.c.bw.Write(append(x.startHead(status, fields), "\r\n"...))
	return x.c.bw.Flush()
}

// fullHead is the header section of a, and sets how the body is framed.
func (x *h1exchange) fullHead(a *answer) []byte {
	b := x.startHead(a.status, a.fields)
	x.closing = x.closing || a.closing
	if x.closing {
		b = append(b, "connection: close\r\n"...)
	}
	x.chunked = false
	switch {
	case a.size >= 0:
		b = append(strconv.AppendInt(append(b, "content-length: "...), a.size, 10), "\r\n"...)
	case !a.bodyless:
		x.chunked = true
		b = append(b, "transfer-encoding: chunked\r\n"...)
	}
	return append(b, "\r\n"...)
}

func (x *h1exchange) head(a *answer, last bool) error {
	if _, err := x.c.bw.Write(x.fullHead(a)); err != nil {
		return err
	}
	if !last {
		return nil
	}
	if x.chunked {
		return x.endTrailers(nil)
	}
	return x.c.bw.Flush()
}

func (x *h1exchange) data(p []byte, last bool) error {
	bw := x.c.bw
	if x.chunked {
		_, _ = bw.WriteString(strconv.FormatInt(int64(len(p)), 16) + "\r\n")
	}
	_, err := bw.Write(p)
	if x.chunked {
		_, err = bw.WriteString("\r\n")
	}
	switch {
	case err != nil || !last:
		return err
	case x.chunked:
		return x.endTrailers(nil)
	}
	return bw.Flush()
}

func (x *h1exchange) endTrailers(fields []field) error {
	b := append(x.c.bw.AvailableBuffer(), "0\r\n"...)
	for _, f := range fields {
		b = append(b, f.name+": "+f.value+"\r\n"...)
	}
	_, _ = x.c.bw.Write(append(b, "\r\n"...))
	return x.c.bw.Flush()
}

func (x *h1exchange) halfHeader(a *answer) error {
	head := x.fullHead(a)
	// The cut is inside the last field's name, so that no parser can take it for a header section.
	lastLine := bytes.LastIndex(head[:len(head)-len("\r\n\r\n")], []byte("\r\n")) + len("\r\n")
	_, _ = x.c.bw.Write(head[:lastLine+len("conte")])
	return x.c.bw.Flush()
}

func (x *h1exchange) raw(p []byte) error {
	_, _ = x.c.bw.Write(p)
	return x.c.bw.Flush()
}

func (x *h1exchange) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if err := x.c.bw.Flush(); err != nil {
		return err
	}
	end := time.Now().Add(d)
	if x.bodyRead {
		_ = x.c.conn.SetReadDeadline(end)
		err := x.peek()
		_ = x.c.conn.SetReadDeadline(time.Time{})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return x.c.s.sleep(time.Until(end))
}

// untilGone sees the peer leave only if the request was read; else it gives up after stallLimit.
func (x *h1exchange) untilGone() error {
	if err := x.c.bw.Flush(); err != nil {
		return err
	}
	if x.bodyRead {
		if err := x.peek(); err != nil {
			return err
		}
	}
	_ = x.c.s.sleep(stallLimit)
	return errGone
}

// peek reads ahead, and so learns that the peer has gone.
func (x *h1exchange) peek() error {
	_, err := x.c.br.Peek(1)
	return err
}

func (x *h1exchange) cut(end ending) error {
	_ = x.c.cut(end)
	return errGone
}
