package app

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
)

// listeners are where the program is asked. api is nil where there is none.
type listeners struct {
	dataPlane, admin, api net.Listener
}

// listen opens them all, or none.
func (c *ServeCmd) listen(log *slog.Logger) (l listeners, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.dataPlane, err = listen(c.DataPlane, log); err != nil {
		return l, err
	}
	if l.admin, err = listen(c.Admin, log); err != nil {
		return l, err
	}
	if c.API != "" {
		l.api, err = listen(c.API, log)
	}
	return l, err
}

func (l listeners) close() {
	for _, listener := range []net.Listener{l.dataPlane, l.admin, l.api} {
		if listener != nil {
			listener.Close()
		}
	}
}

// listen opens HOST:PORT or unix:PATH. A socket file that nobody listens on is removed first.
func listen(address string, log *slog.Logger) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			conn, err := net.Dial("unix", path)
			if err == nil {
				conn.Close()
				return nil, fmt.Errorf("listen %s: another process listens there", address)
			}
			os.Remove(path)
		}
		return net.Listen("unix", path)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		log.Warn("a plaintext listener is reachable from other machines: whoever reaches it can fund and spend retry budgets", "address", address)
	}
	return l, nil
}
