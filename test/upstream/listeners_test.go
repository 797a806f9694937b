package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAClosedPortThatOpensLater(t *testing.T) {
	s := start(t)
	port, err := s.Reserve("")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := net.Dial("tcp", port.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("closed: %v", err)
		}
		if err := errors.Join(port.Open(), port.Open()); err != nil {
			t.Fatal(err)
		}
		c := dial(t, port.Addr())
		c.get("late", "503")
		if resp, _ := c.response("GET"); resp.StatusCode != 503 {
			t.Fatalf("open: status %d", resp.StatusCode)
		}
		if err := errors.Join(port.Shut(), port.Shut()); err != nil {
			t.Fatal(err)
		}
		c.get("late", "ok") // what was accepted stays
		c.response("GET")
	}
	if hits := wantHits(t, s, "late", 4, 4); hits[3].Listener != "late" {
		t.Errorf("%+v", hits[3])
	}
}

func TestReserveAfterClose(t *testing.T) {
	s, err := Start(Addrs{})
	if err != nil {
		t.Fatal(err)
	}
	late := s.Late()
	if err := late.Open(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reserve(""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Reserve: %v", err)
	}
	if _, err := net.Dial("tcp", late.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after Close: %v", err)
	}
}

func TestAFullBacklogTimesOut(t *testing.T) {
	s := start(t)
	for range 3 {
		_, err := net.DialTimeout("tcp", s.Addrs().Full, 150*time.Millisecond)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Fatalf("got %v, want a timeout", err)
		}
	}
}

func TestSilenceAndClosing(t *testing.T) {
	s := start(t)
	silent := dial(t, s.Addrs().Silent)
	_ = silent.conn.SetDeadline(time.Now().Add(150 * time.Millisecond))
	err := tls.Client(silent.conn, &tls.Config{InsecureSkipVerify: true}).Handshake()
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("silent: %v", err)
	}
	closing := dial(t, s.Addrs().Closing)
	if got, end := closing.end(); got != "" || end != endFIN {
		t.Errorf("closing: %q, %v", got, end)
	}
	closing = dial(t, s.Addrs().Closing)
	if err := tls.Client(closing.conn, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("closing: the handshake succeeded")
	}
}

func pool(t *testing.T, pem []byte) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate in the PEM")
	}
	return p
}

func (c *client) overTLS(config *tls.Config) (*client, error) {
	conn := tls.Client(c.conn, config)
	err := conn.Handshake()
	c.conn = conn
	c.br.Reset(conn)
	return c, err
}

func TestTLS(t *testing.T) {
	s := start(t)
	certs := s.Certificates()
	good := &tls.Config{RootCAs: pool(t, certs.CA), ServerName: ServerName}
	for script, want := range map[string]string{
		"503": "HTTP/1.1 503 ", "reset": "", "fin": "", "half-body": "HTTP/1.1 200 OK", "garbage": "220 this is not",
	} {
		c, err := dial(t, s.Addrs().TLS).overTLS(good)
		if err != nil {
			t.Fatal(err)
		}
		c.post(script, script+map[bool]string{true: " close"}[script == "503"])
		if got, end := c.end(); !strings.HasPrefix(got, want) || (end == endRST) != (script == "reset") {
			t.Errorf("%s: %q, %v", script, got, end)
		}
		if hits := wantHits(t, s, script, 1, 1); hits[0].Listener != "tls" {
			t.Errorf("%+v", hits[0])
		}
	}
	_, err := dial(t, s.Addrs().TLS).overTLS(&tls.Config{RootCAs: pool(t, certs.OtherCA), ServerName: ServerName})
	var unknown *tls.CertificateVerificationError
	if !errors.As(err, &unknown) {
		t.Errorf("another CA: %v", err)
	}
	c, err := dial(t, s.Addrs().TLS).overTLS(good)
	if err != nil {
		t.Fatal(err)
	}
	c.get("wait", "ok delay=50ms") // a read deadline does not spoil the connection
	c.response("GET")
	c.get("wait", "ok")
	c.response("GET")
}

func TestMutualTLS(t *testing.T) {
	s := start(t)
	certs := s.Certificates()
	config := &tls.Config{RootCAs: pool(t, certs.CA), ServerName: ServerName}

	// Without a certificate the client's handshake succeeds, the request is written, then it fails.
	c, err := dial(t, s.Addrs().MutualTLS).overTLS(config)
	if err != nil {
		t.Fatal("handshake:", err)
	}
	if version := c.conn.(*tls.Conn).ConnectionState().Version; version != tls.VersionTLS13 {
		t.Errorf("version %x", version)
	}
	c.post("mtls", "ok")
	if got, err := io.ReadAll(c.br); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("refused by %q, %v", got, err)
	}
	wantHits(t, s, "mtls", 0, 0)

	pair, err := tls.X509KeyPair(certs.ClientCert, certs.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{pair}
	if c, err = dial(t, s.Addrs().MutualTLS).overTLS(config); err != nil {
		t.Fatal(err)
	}
	c.post("mtls", "ok")
	if resp, _ := c.response("POST"); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	wantHits(t, s, "mtls", 1, 1)
}

func TestStartNamesTheAddressInUse(t *testing.T) {
	s := start(t)
	for _, addrs := range []Addrs{{H2: s.Addrs().H1}, {Late: s.Addrs().H1}, {Full: s.Addrs().H1}, {Control: s.Addrs().H1}, {TLS: "nowhere"}, {Late: "nowhere"}} {
		if _, err := Start(addrs); err == nil || !strings.HasPrefix(err.Error(), "faulty upstream: ") {
			t.Errorf("%+v: %v", addrs, err)
		}
	}
}
