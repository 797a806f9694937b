package upstream

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"
)

// h1conn serves one HTTP/1.1 connection, byte by byte its own.
type h1conn struct {
	s        *Server
	listener string
	id       int64
	raw      *net.TCPConn
	conn     net.Conn // raw, or TLS on it
	br       *bufio.Reader
	bw       *bufio.Writer
	armed    *fault // a keepalive-race that waits for the next request
}

func (s *Server) serveH1(listener string, config *tls.Config) func(*net.TCPConn, int64) {
	return func(raw *net.TCPConn, id int64) {
		c := &h1conn{s: s, listener: listener, id: id, raw: raw, conn: raw}
		if config != nil {
			c.conn = tls.Server(raw, config)
		}
		c.br, c.bw = bufio.NewReader(c.conn), bufio.NewWriter(c.conn)
		c.serve()
	}
}

func (c *h1conn) serve() {
	for {
		if _, err := c.br.Peek(1); err != nil {
			// A refused TLS handshake ends here too: its alert must not be lost to a RST.
			_ = c.cut(endFIN)
			return
		}
		if f := c.armed; f != nil && f.mode == "" {
			c.s.rec.raced.Add(1)
			c.breakArmed(f)
			return
		}
		req, err := http.ReadRequest(c.br)
		if err != nil {
			_, _ = io.WriteString(c.bw, "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
			_ = c.cut(endFIN)
			return
		}
		c.s.rec.requests.Add(1)
		x := &h1exchange{c: c, req: req, closing: req.Close, bodyRead: req.Body == http.NoBody}
		if err := c.handle(x); err != nil {
			return
		}
		if x.closing || !x.bodyRead {
			_ = c.cut(endFIN)
			return
		}
	}
}

// handle answers one request. An error means that the connection is over.
func (c *h1conn) handle(x *h1exchange) error {
	req := x.req
	in := incoming{query: req.URL.RawQuery, header: req.Header}
	script, id := in.script(), in.id()
	if script == "" && id == "" && c.armed == nil && !isWebSocket(req) {
		return c.healthy(x)
	}
	hit := Hit{ID: id, Method: req.Method, Path: req.RequestURI, Host: req.Host, Header: req.Header,
		Listener: c.listener, Proto: "HTTP/1.1", Conn: c.id}
	p := &playing{exchange: x, method: req.Method, expect: expectsContinue(req.Header)}
	bad := c.s.begin(p, hit, script, http1)
	switch {
	case c.armed != nil:
		p.rec.played(c.armed.text)
		if err := p.readAndExecute(); err != nil {
			return err
		}
		c.breakArmed(c.armed)
		return errGone
	case bad == nil && p.f.spec == specs["ok"] && isWebSocket(req):
		p.rec.complete(nil)
		p.rec.execute()
		return c.serveWebSocket(req)
	}
	if err := p.run(); err != nil {
		return err
	}
	if bad == nil && p.f.spec == specs["keepalive-race"] {
		c.armed = p.f
	}
	return nil
}

// breakArmed ends the connection instead of answering.
func (c *h1conn) breakArmed(f *fault) {
	if f.hold > 0 {
		_ = c.s.sleep(f.hold)
	}
	if f.end == endStall {
		_ = c.s.sleep(stallLimit)
	}
	_ = c.cut(f.end)
}

// healthy answers a request that asks for nothing and is not recorded: the way for benchmarks.
func (c *h1conn) healthy(x *h1exchange) error {
	if expectsContinue(x.req.Header) {
		if err := x.info(http.StatusContinue, nil); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, x.req.Body); err != nil {
		return err
	}
	x.bodyRead = true
	b := append(c.bw.AvailableBuffer(), "HTTP/1.1 200 OK\r\ndate: "...)
	b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n"...)
	if x.closing {
		b = append(b, "connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	if x.req.Method != http.MethodHead {
		b = append(b, "ok\n"...)
	}
	_, _ = c.bw.Write(b)
	return c.bw.Flush()
}

// cut ends the connection. FIN: what the peer still sends is read for a second, since the kernel
// answers a close with unread bytes by RST, which can overtake what was written.
func (c *h1conn) cut(end ending) error {
	_ = c.bw.Flush()
	if end == endRST {
		_ = c.raw.SetLinger(0)
		return c.raw.Close()
	}
	if t, ok := c.conn.(*tls.Conn); ok {
		_ = t.CloseWrite()
	}
	lingeringClose(c.raw)
	return nil
}

// lingerLimit is how long a closed connection waits for its peer to close as well.
const lingerLimit = time.Second

func lingeringClose(raw *net.TCPConn) {
	_ = raw.CloseWrite()
	_ = raw.SetReadDeadline(time.Now().Add(lingerLimit))
	_, _ = io.Copy(io.Discard, raw)
	_ = raw.Close()
}
