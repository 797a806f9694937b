package app

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWantsConsole: nobody from another machine finds a console unless the operator says so.
func TestWantsConsole(t *testing.T) {
	t.Parallel()
	for address, auto := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"0.0.0.0": false, "::": false, "10.0.0.1": false, "192.168.0.1": false, "fe80::1": false, "8.8.8.8": false,
	} {
		wantConsole(t, &net.TCPAddr{IP: net.ParseIP(address), Port: 9003}, auto)
	}
	wantConsole(t, &net.TCPAddr{}, false)
	wantConsole(t, &net.UnixAddr{Name: "/run/admin", Net: "unix"}, true)
}

func wantConsole(t *testing.T, address net.Addr, auto bool) {
	t.Helper()
	for flag, want := range map[string]bool{"auto": auto, "on": true, "off": false} {
		if got := (&ServeCmd{Console: flag}).wantsConsole(address); got != want {
			t.Errorf("--console=%s at %v: %v", flag, address, got)
		}
	}
}

// TestConsoleIsServed: on the admin listener, beside what else is there, until the process ends.
func TestConsoleIsServed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want map[string]int
	}{
		"by default": {nil, map[string]int{"/": 303, "/console/": 200, "/console/assets/main.js": 200, "/metrics": 200, "/healthz": 200, "/nothing": 404}},
		"a socket":   {[]string{"--admin=unix:" + filepath.Join(t.TempDir(), "admin")}, map[string]int{"/console/": 200}},
		"off":        {[]string{"--console=off"}, map[string]int{"/": 404, "/console/": 404, "/console/live": 404, "/metrics": 200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, append(test.args, "--drain-time=0s")...)
			if said := strings.Contains(p.log.String(), "msg=console url=http://"+p.admin+"/console/"); said != (name == "by default") {
				t.Errorf("said %v:\n%s", said, p.log)
			}
			client := &http.Client{
				Timeout:       20 * time.Second,
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
				Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
					return net.Dial(network(p.admin), p.admin)
				}},
			}
			for path, want := range test.want {
				resp, err := client.Get("http://localhost" + path)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != want {
					t.Errorf("%s: status %d, want %d", path, resp.StatusCode, want)
				}
			}
			if test.want["/console/"] == 200 {
				watching, err := client.Get("http://localhost/console/live")
				if err != nil {
					t.Fatal(err)
				}
				defer watching.Body.Close()
			}
			p.signal()
			p.wantExit(t, 0) // a page that watches does not hold it
		})
	}
}
