package app

import (
	"net"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/internal/config"
)

// at is a listener that is only asked where it is.
type at struct {
	net.Listener
	addr net.Addr
}

func (l at) Addr() net.Addr { return l.addr }

func TestGuardCredentials(t *testing.T) {
	const (
		credential = "upstreams: [{clusters: [app], credential: {token_file: {path: /run/token}}}]\n"
		alone      = "listeners: {data_plane: {tls: {cert_file: a, key_file: b}}}\n"
		mutual     = "listeners: {data_plane: {tls: {cert_file: a, key_file: b, client_ca_file: c}}}\n"
	)
	anywhere := &net.TCPAddr{IP: net.IPv4zero, Port: 9002}
	for name, test := range map[string]struct {
		addr    net.Addr
		config  string
		refused bool
	}{
		"loopback":             {&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, credential, false},
		"IPv6 loopback":        {&net.TCPAddr{IP: net.IPv6loopback}, credential, false},
		"a Unix socket":        {&net.UnixAddr{Name: "/run/verdict"}, credential, false},
		"no credential":        {anywhere, "upstreams: [{clusters: [app], policy: {max_attempts: 2}}]\n", false},
		"plaintext":            {anywhere, credential, true},
		"TLS alone":            {anywhere, credential + alone, true},
		"client certificates":  {anywhere, credential + mutual, false},
		"IPv6 from everywhere": {&net.TCPAddr{IP: net.IPv6unspecified}, credential, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Parse("f.yaml", []byte(test.config))
			if err != nil {
				t.Fatal(err)
			}
			err = guardCredentials(at{addr: test.addr}, asks(dataPlanePlace.settings(cfg.Listeners())), cfg)
			if (err != nil) != test.refused {
				t.Errorf("error %v, want one: %t", err, test.refused)
			}
			if err != nil && (!strings.Contains(err.Error(), `"app"`) || !strings.Contains(err.Error(), test.addr.String())) {
				t.Errorf("%v names neither upstream nor place", err)
			}
		})
	}
}

// The program does not begin to serve.
func TestServeGuardsCredentials(t *testing.T) {
	t.Parallel()
	var out, log strings.Builder
	code := Run(t.Context(), []string{"serve", "--data-plane=0.0.0.0:0", "--admin=127.0.0.1:0",
		"--config=" + file(t, "upstreams: [{clusters: [app], credential: {token_file: {path: /dev/null}}}]\n")}, &out, &log)
	if code != 1 || !strings.Contains(log.String(), "would be given to whoever reaches the data plane") {
		t.Errorf("exit code %d: %s", code, &log)
	}
}
