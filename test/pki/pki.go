// Package pki makes certificates for tests: authorities, and what they sign, as PEM files.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// PEM is the authority's own certificate.
	PEM []byte

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certificate is a signed certificate and its key, as PEM.
type Certificate struct{ Cert, Key []byte }

// Change changes a certificate before it is signed.
type Change func(*x509.Certificate)

// NewAuthority makes an authority that signs itself.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	template := template(name)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{encode("CERTIFICATE", der), cert, key}
}

// Server signs a certificate for server authentication with these DNS names, localhost and 127.0.0.1.
func (a *Authority) Server(t testing.TB, names ...string) Certificate {
	t.Helper()
	return a.sign(t, "server", func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		c.DNSNames = append(names, "localhost")
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	})
}

// Client signs a certificate for client authentication. A name with a scheme is a URI, others are DNS names.
func (a *Authority) Client(t testing.TB, name string, changes ...Change) Certificate {
	t.Helper()
	return a.sign(t, "client", append([]Change{func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if u, err := url.Parse(name); err == nil && u.Scheme != "" {
			c.URIs = []*url.URL{u}
		} else if name != "" {
			c.DNSNames = []string{name}
		}
	}}, changes...)...)
}

// Expired makes a certificate that was good until an hour ago.
func Expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-time.Hour)
}

// NotYetValid makes a certificate that will be good in an hour.
func NotYetValid(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }

// ForServers makes a certificate for server authentication only.
func ForServers(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }

// CommonName gives a certificate a common name.
func CommonName(name string) Change {
	return func(c *x509.Certificate) { c.Subject.CommonName = name }
}

// Write writes NAME.crt and NAME.key into a directory. Each file is replaced at once.
func (c Certificate) Write(t testing.TB, dir, name string) (cert, key string) {
	t.Helper()
	return WriteFile(t, filepath.Join(dir, name+".crt"), c.Cert), WriteFile(t, filepath.Join(dir, name+".key"), c.Key)
}

// WriteFile replaces a file at once, and returns its path.
func WriteFile(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TLS is the certificate as crypto/tls wants it.
func (c Certificate) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(c.Cert, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Pool trusts these authorities.
func Pool(authorities ...*Authority) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, a := range authorities {
		pool.AddCert(a.cert)
	}
	return pool
}

func (a *Authority) sign(t testing.TB, name string, changes ...Change) Certificate {
	t.Helper()
	template := template(name)
	for _, change := range changes {
		change(template)
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Certificate{encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER)}
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // the reader never fails
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
