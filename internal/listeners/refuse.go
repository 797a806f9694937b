package listeners

import (
	"context"
	"io"
	"log/slog"
	"net"
	"time"
)

// lingering is how long a client that was refused may take to read why.
const lingering = 500 * time.Millisecond

// hangUp lets the client read the alert. To close a socket in which there is something unread, as there is
// when a client speaks at once after its part of the handshake, resets the connection and takes the alert
// along.
func hangUp(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	if c, ok := raw.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
		raw.SetReadDeadline(time.Now().Add(lingering))
		io.Copy(io.Discard, io.LimitReader(raw, 64<<10))
	}
}

// refuse counts, and logs each kind at most once in ten seconds.
func (t *TLS) refuse(client net.Addr, err error) {
	why := refusal(err)
	select {
	case <-t.done:
		return
	default:
	}
	if t.options.Refused != nil {
		t.options.Refused(t.name, why)
	}
	level := slog.LevelWarn
	if why == Gone { // a port that is only probed
		level = slog.LevelDebug
	}
	t.sometimes[why].Do(func() {
		t.options.Log.Log(context.Background(), level, "a connection was refused in the handshake; others of this kind within ten seconds are not logged",
			"listener", t.name, "why", why.String(), "client", client.String(), "error", err)
	})
}
