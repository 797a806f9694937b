package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// file is the authority's certificate.
func (a *authority) file(t *testing.T) string {
	return write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})))
}

// issue returns a certificate for 127.0.0.1 and auth.internal as PEM files.
func (a *authority) issue(t *testing.T, change func(*x509.Certificate)) (certFile, keyFile string, pair tls.Certificate) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{"auth.internal"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return write(t, string(certPEM)), write(t, string(keyPEM)), pair
}

// newTLSEndpoint is an endpoint that shows the certificate, and wants one of clients where it has
// authorities for them.
func newTLSEndpoint(t *testing.T, pair tls.Certificate, clients *x509.CertPool) *endpoint {
	e := new(endpoint)
	e.Server = httptest.NewUnstartedServer(e)
	e.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients != nil {
		e.TLS.ClientCAs, e.TLS.ClientAuth = clients, tls.RequireAndVerifyClientCert
	}
	e.StartTLS()
	t.Cleanup(e.Close)
	return e
}

// A secret is told only to an endpoint whose certificate is trusted.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, other := newAuthority(t), newAuthority(t)
	_, _, good := ours.issue(t, nil)
	_, _, expired := ours.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	_, _, named := ours.issue(t, func(c *x509.Certificate) { c.IPAddresses = nil })
	certFile, keyFile, _ := ours.issue(t, nil)
	clients := x509.NewCertPool()
	clients.AddCert(ours.cert)
	ca := `ca_file: "` + ours.file(t) + `"`
	for _, test := range []struct {
		name     string
		endpoint *endpoint
		tls      string // the configuration's
		text     string // of the error
	}{
		{"our authority", newTLSEndpoint(t, good, nil), ca, ""},
		{"the system's authorities", newTLSEndpoint(t, good, nil), "", "unknown authority"},
		{"another authority", newTLSEndpoint(t, good, nil), `ca_file: "` + other.file(t) + `"`, "unknown authority"},
		{"expired", newTLSEndpoint(t, expired, nil), ca, "has expired"},
		{"another name", newTLSEndpoint(t, named, nil), ca, "for another name"},
		{"the name that it has", newTLSEndpoint(t, named, nil), ca + ", server_name: auth.internal", ""},
		{"not one", newTLSEndpoint(t, named, nil), ca + ", server_name: auth.external", "for another name"},
		{"no client certificate", newTLSEndpoint(t, good, clients), ca, "broke"},
		{"a client certificate", newTLSEndpoint(t, good, clients), ca + `, cert_file: "` + certFile + `", key_file: "` + keyFile + `"`, ""},
		{"no such file", newTLSEndpoint(t, good, nil), `ca_file: "/no/such/ca.pem"`, "/no/such/ca.pem"},
		{"no certificate in the file", newTLSEndpoint(t, good, nil), `ca_file: "` + keyFile + `"`, "no certificate in it"},
		{"a key that is none", newTLSEndpoint(t, good, nil), `cert_file: "` + certFile + `", key_file: "` + certFile + `"`, "rather than a key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			yaml := strings.Replace(oauth(test.endpoint.URL, ", tls: {"+test.tls+"}"), "allow_http: true, ", "", 1)
			_, err := start(t, yaml).Source("app").Current(t.Context())
			switch {
			case test.text == "" && err != nil:
				t.Error(err)
			case test.text != "" && (err == nil || !strings.Contains(err.Error(), test.text)):
				t.Errorf("%v, want %q", err, test.text)
			}
			if n := test.endpoint.requests.Load(); n != 0 && test.text != "" {
				t.Errorf("the endpoint was told the secret %d times", n)
			}
		})
	}
}

// An endpoint that speaks no TLS where it should is told nothing.
func TestPlainEndpointBehindHTTPS(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	yaml := strings.Replace(oauth(strings.Replace(e.URL, "http", "https", 1), ""), "allow_http: true, ", "", 1)
	if _, err := start(t, yaml).Source("app").Current(t.Context()); resultOf(err) != resultUnreachable || e.requests.Load() != 0 {
		t.Errorf("%v, %d requests", err, e.requests.Load())
	}
}
