package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
)

// pipe returns a reader of lines and what to write them to. Who writes more lines than are read does not
// wait for it.
func pipe(t *testing.T) (line func() string, w io.Writer) {
	t.Helper()
	r, pw := io.Pipe()
	t.Cleanup(func() { r.Close(); pw.Close() })
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return func() string { return <-lines }, pw
}

// dialUnix connects to a socket, whatever the address.
func dialUnix(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}
