package listeners

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestSocketMode: the permissions hold whatever the umask is.
func TestSocketMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	for _, mode := range []os.FileMode{0o600, 0o660, 0o666} {
		l, err := Open("unix:"+path, mode)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%o: %v, %v", mode, info.Mode(), err)
		}
		if _, err := Open("unix:"+path, mode); err == nil {
			t.Error("a second listener took the socket of the first")
		}
		if Remote(l) {
			t.Error("a Unix socket counts as reachable from other machines")
		}
		l.Close()
	}
}

func TestRemote(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "127.9.9.9:0": false, "localhost:0": false, "0.0.0.0:0": true, ":0": true} {
		l, err := Open(address, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := Remote(l); got != want {
			t.Errorf("%s: %v", address, got)
		}
		l.Close()
	}
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		defer l.Close()
		if _, err := Open(l.Addr().String(), 0); err == nil {
			t.Error("a port was had twice")
		}
	}
}
