package listeners

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// Open opens HOST:PORT or unix:PATH. A socket file that nobody listens on is removed first. A new one has the
// given permissions from its first moment on; who may write to it may connect.
func Open(address string, mode os.FileMode) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		return net.Listen("tcp", address)
	}
	if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
			return nil, fmt.Errorf("listen %s: another process listens there", address)
		}
		os.Remove(path)
	}
	// Linux gives the file the permissions of the socket, less the umask (net/unix/af_unix.c). Where a system
	// does not let them be set, they hold a moment later.
	narrow := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode)) })
	}}
	l, err := narrow.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Remote reports whether other machines may reach a listener.
func Remote(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}
