package upstream

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// serveWebSocket answers 101 and sends every message back, until the peer closes. The connection is
// over afterwards.
func (c *h1conn) serveWebSocket(r *http.Request) error {
	w := &hijackable{c: c, header: make(http.Header)}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		_ = c.cut(endFIN)
		return errGone
	}
	defer func() { _ = ws.CloseNow() }()
	ctx := context.Background() // Close ends the connection, and with it every read
	for {
		kind, message, err := ws.Read(ctx)
		if err != nil {
			return errGone
		}
		if err := ws.Write(ctx, kind, message); err != nil {
			return errGone
		}
	}
}

// hijackable is the http.ResponseWriter that websocket.Accept wants.
type hijackable struct {
	c      *h1conn
	header http.Header
}

func (w *hijackable) Header() http.Header { return w.header }

func (w *hijackable) Write(p []byte) (int, error) { return w.c.bw.Write(p) }

func (w *hijackable) WriteHeader(status int) {
	_, _ = w.c.bw.WriteString("HTTP/1.1 " + string(appendStatus(nil, status)) + " " + http.StatusText(status) + "\r\n")
	_ = w.header.Write(w.c.bw)
	_, _ = w.c.bw.WriteString("\r\n")
}

func (w *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.c.conn, bufio.NewReadWriter(w.c.br, w.c.bw), w.c.bw.Flush()
}
