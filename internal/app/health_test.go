package app

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

func TestHealth(t *testing.T) {
	api, admin := startService(t)
	for _, server := range []string{api, admin} {
		if code, out, errors := command(t, "health", "--server="+server); code != 0 || out != "SERVING\n" || errors != "" {
			t.Errorf("%s: exit code %d\n%s%s", server, code, out, errors)
		}
	}
}

// A service that drains, one that accepts and says nothing, one that speaks another protocol, and none at
// all: exit code 1, soon, and words that say which.
func TestHealthFails(t *testing.T) {
	socket := func(name string) (string, net.Listener) {
		path := filepath.Join(t.TempDir(), name)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return "unix:" + path, l
	}
	draining, l := socket("draining")
	status := health.NewServer()
	status.Shutdown()
	server := grpc.NewServer()
	healthv1.RegisterHealthServer(server, status)
	go server.Serve(l)
	t.Cleanup(server.Stop)

	silent, _ := socket("silent")
	other, l := socket("other")
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 this is not HTTP\r\n"))
			conn.Close()
		}
	}()

	for address, want := range map[string]string{
		draining:             "NOT_SERVING",
		silent:               "DeadlineExceeded",
		other:                "",
		"unix:/nobody/there": "Unavailable",
	} {
		begin := time.Now()
		code, out, errors := command(t, "health", "--timeout=500ms", "--server="+address)
		if code != 1 || out != "" || !strings.HasPrefix(errors, "extproc: "+address) || !strings.Contains(errors, want) {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", address, code, want, out, errors)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: %v", address, took)
		}
	}
}
