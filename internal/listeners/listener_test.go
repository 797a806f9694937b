package listeners

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/pki"
)

// TestClients: who gets in, and why the others do not, with both versions of TLS.
func TestClients(t *testing.T) {
	l := start(t, nil)
	stranger := pki.NewAuthority(t, "strangers")
	namesake := pki.NewAuthority(t, "clients") // the same name, another key
	for _, test := range []struct {
		name string
		cert pki.Certificate
		why  Refusal // Other: it gets in
		told string
	}{
		{"URI", l.clients.Client(t, listed), Other, ""},
		{"DNS name", l.clients.Client(t, "envoy.EXAMPLE"), Other, ""},
		{"one name of two", l.clients.Client(t, listed, func(c *x509.Certificate) { c.DNSNames = []string{"another.example"} }), Other, ""},
		{"no certificate", pki.Certificate{}, NoCertificate, "certificate required"},
		{"another authority", stranger.Client(t, listed), UnknownAuthority, "unknown certificate authority"},
		{"an authority of the same name", namesake.Client(t, listed), UnknownAuthority, "unknown certificate authority"},
		{"expired", l.clients.Client(t, listed, pki.Expired), OutOfTime, "expired certificate"},
		{"not yet valid", l.clients.Client(t, listed, pki.NotYetValid), OutOfTime, "expired certificate"},
		{"a server's", l.clients.Client(t, listed, pki.ForServers), BadCertificate, "bad certificate"},
		{"unlisted URI", l.clients.Client(t, "spiffe://example.org/other"), Unlisted, "bad certificate"},
		{"longer URI", l.clients.Client(t, listed+"/x"), Unlisted, "bad certificate"},
		{"URI in other case", l.clients.Client(t, "spiffe://example.org/Envoy"), Unlisted, "bad certificate"},
		{"unlisted DNS name", l.clients.Client(t, "other.example"), Unlisted, "bad certificate"},
		{"wildcard", l.clients.Client(t, "*.example"), Unlisted, "bad certificate"},
		{"common name only", l.clients.Client(t, "", pki.CommonName("envoy.example")), Unlisted, "bad certificate"},
		{"URI as a DNS name", l.clients.Client(t, "", func(c *x509.Certificate) { c.DNSNames = []string{listed} }), Unlisted, "bad certificate"},
		{"no name", l.clients.Client(t, ""), Unlisted, "bad certificate"},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(test.name+" "+tls.VersionName(version), func(t *testing.T) {
				c := l.client()
				if test.cert.Cert != nil {
					pair := test.cert.TLS(t)
					// The usual way leaves out a certificate that the server's authorities have not signed.
					c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
				}
				c.MinVersion, c.MaxVersion = version, version
				before := l.count(test.why)
				err := l.try(c)
				if test.why == Other {
					if err != nil {
						t.Errorf("it is refused: %v\n%s", err, l.log.String())
					}
					return
				}
				told := test.told
				if version == tls.VersionTLS12 {
					told = strings.Replace(told, "certificate required", "handshake failure", 1)
				}
				if err == nil || !strings.Contains(err.Error(), told) {
					t.Errorf("the client is told %v, want %s", err, told)
				}
				l.wait("the refusal is counted", func() bool { return l.count(test.why) == before+1 })
			})
		}
	}
	if log := l.log.String(); !strings.Contains(log, `spiffe://example.org/other`) || strings.Count(log, "why=unlisted") != 1 {
		t.Errorf("the log does not name an unlisted client once:\n%s", log)
	}
}

// TestProtocols: peers that speak something else.
func TestProtocols(t *testing.T) {
	l := start(t, nil)
	cert := l.clients.Client(t, listed)
	for _, test := range []struct {
		name   string
		change func(*tls.Config)
		why    Refusal
	}{
		{"TLS 1.1", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 }, NoCommonProtocol},
		{"CBC", func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
		}, NoCommonProtocol},
		{"another protocol", func(c *tls.Config) { c.NextProtos = []string{"spdy/3"} }, NoCommonProtocol},
		{"another server", func(c *tls.Config) { c.ServerName = "other.example" }, ByClient},
		{"an authority that the client does not know", func(c *tls.Config) { c.RootCAs = pki.Pool(l.clients) }, ByClient},
	} {
		c := l.client(cert)
		test.change(c)
		before := l.count(test.why)
		if err := l.try(c); err == nil {
			t.Errorf("%s: no error", test.name)
		}
		l.wait(test.name+" is counted", func() bool { return l.count(test.why) == before+1 })
	}
	for said, why := range map[string]Refusal{
		"GET / HTTP/1.1\r\n\r\n":                NotTLS,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":      NotTLS,
		"":                                      Gone,
		"\x16\x03\x01":                          Gone,
		"\x16\x03\x01\x00\x05\x01\x00\x00\x01":  Gone,
		"\x16\x03\x01\x00\x04\xff\x00\x00\x00":  Other,
		"\x16\x03\x01\xff\xff" + "\x00\x00\x00": NotTLS, // a record of 65535 bytes
	} {
		conn, err := net.Dial("tcp", l.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		before := l.count(why)
		io.WriteString(conn, said)
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
		conn.Close()
		l.wait(strings.TrimSpace(said)+" is counted as "+why.String(), func() bool { return l.count(why) > before })
	}
	if err := l.try(l.good()); err != nil {
		t.Errorf("a good client afterwards: %v", err)
	}
}

// TestSilentClients: whoever says nothing is hung up on, and more of them than may be open at once do not
// keep a good client out.
func TestSilentClients(t *testing.T) {
	l := start(t, func(o *Options) { o.Timeout, o.MaxHandshakes = 3*time.Second, 50 })
	var silent []net.Conn
	for range 200 {
		conn, err := net.Dial("tcp", l.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	if err := l.try(l.good()); err != nil {
		t.Errorf("a good client among them: %v\n%s", err, l.log.String())
	}
	for _, conn := range silent {
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Fatalf("a silent client is kept: %v", err)
		}
	}
	l.wait("all are counted", func() bool { return l.count(TimedOut)+l.count(CrowdedOut) == len(silent) })
	if l.count(CrowdedOut) == 0 || l.count(TimedOut) == 0 {
		t.Errorf("crowded out %d, timed out %d", l.count(CrowdedOut), l.count(TimedOut))
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// TestClose: it ends what is open, at once, and nothing else.
func TestClose(t *testing.T) {
	l := start(t, func(o *Options) { o.Timeout = time.Hour })
	served, err := l.dial(l.good())
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	if err := ask(served); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Dial("tcp", l.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	l.wait("the handshake has begun", func() bool { l.listener.mu.Lock(); defer l.listener.mu.Unlock(); return l.listener.open.Len() == 1 })
	if err := l.listener.Close(); err != nil {
		t.Error(err)
	}
	if err := l.listener.Close(); err != net.ErrClosed {
		t.Errorf("the second Close: %v", err)
	}
	silent.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := silent.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a silent client is kept: %v", err)
	}
	if err := ask(served); err != nil {
		t.Errorf("the connection that was served: %v", err)
	}
}

// scripted is a listener whose Accept says what a channel says.
type scripted struct {
	net.Listener
	results chan result
}

func (s scripted) Accept() (net.Conn, error) {
	r, ok := <-s.results
	if !ok {
		return nil, net.ErrClosed
	}
	return r.conn, r.err
}

func (s scripted) Close() error { close(s.results); return nil }

type panicking struct{ net.Conn }

func (panicking) Read([]byte) (int, error) { panic("what a peer sent") }

// TestTrouble: what goes wrong with one connection, or with accepting one, is not the end of the listener.
func TestTrouble(t *testing.T) {
	l := start(t, nil)
	inner := scripted{results: make(chan result)}
	trouble, err := NewTLS(inner, "data_plane", l.settings, []string{"h2"}, l.listener.options)
	if err != nil {
		t.Fatal(err)
	}
	defer trouble.Close()
	for range 2 {
		inner.results <- result{err: syscall.EMFILE}
		if _, err := trouble.Accept(); err != syscall.EMFILE { // the server waits before it asks again
			t.Errorf("the error is %v", err)
		}
	}
	client, server := net.Pipe()
	defer client.Close()
	inner.results <- result{conn: panicking{server}}
	l.wait("the panic is said", func() bool { return strings.Contains(l.log.String(), "what a peer sent") })
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection: %v", err)
	}
	client, server = net.Pipe()
	inner.results <- result{conn: server}
	served := make(chan error, 1)
	go func() { served <- tls.Client(client, l.good()).Handshake() }()
	conn, err := trouble.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	client.Close()
	conn.Close()
}

// TestRefusalWords: each has its own.
func TestRefusalWords(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range append(Refusals(), refusals) {
		if r < refusals && seen[r.String()] || r.String() == "" {
			t.Errorf("%d: %q", r, r)
		}
		seen[r.String()] = true
	}
	if len(seen) != int(refusals) {
		t.Errorf("%d words", len(seen))
	}
}
