package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// terminator speaks TLS and passes on to the server, which may be built without TLS.
func terminator(t *testing.T, target string) (address string, authority *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis.test"}, DNSNames: []string{"redis.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	authority = x509.NewCertPool()
	authority.AddCert(parsed)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { l.Close(); running.Wait() })
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				running.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
					pair[1].Close()
				})
			}
		}
	})
	return l.Addr().String(), authority
}

func TestTLS(t *testing.T) {
	s := redistest.Start(t, redistest.Binary(t))
	address, authority := terminator(t, s.Address)
	for name, c := range map[string]struct {
		tls  *tls.Config
		down bool
	}{
		"trusted":         {&tls.Config{RootCAs: authority, ServerName: "redis.test"}, false},
		"another name":    {&tls.Config{RootCAs: authority, ServerName: "other.test"}, true},
		"not trusted":     {&tls.Config{ServerName: "redis.test"}, true},
		"without, though": {nil, true},
	} {
		b := mustNew(t, nil, Options{Server: conn.Options{Addresses: []string{address}, TLS: c.tls}})
		if b.down.Load() != c.down {
			t.Errorf("%s: cut off: %v, want %v", name, b.down.Load(), c.down)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no address":                {},
		"several without Sentinel":  {Server: conn.Options{Addresses: []string{"a:1", "b:1"}}},
		"too many flushes":          {Server: at("a:1"), Flush: time.Millisecond},
		"a negative wait":           {Server: at("a:1"), Wait: -1},
		"a password file not there": {Server: conn.Options{Addresses: []string{"a:1"}, PasswordFile: "/nowhere/password"}},
	} {
		if b, err := New(nil, o); err == nil {
			b.Close()
			t.Errorf("%s: no error", name)
		}
	}
}
