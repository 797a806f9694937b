package upstream

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
	"time"
)

// ServerName is the DNS name in the server's certificate; it also holds for localhost and 127.0.0.1.
const ServerName = "upstream.test"

// Certificates belong to one Server and are made anew at each start; nothing is written to disk.
type Certificates struct {
	// CA signed the server's certificate (PEM). Who does not trust it fails in the handshake.
	CA []byte
	// ClientCert and ClientKey are what the MutualTLS listener asks for (PEM).
	ClientCert, ClientKey []byte
	// OtherCA signed nothing that a server shows (PEM): trust it alone, and verification fails.
	OtherCA []byte

	server  tls.Certificate
	clients *x509.CertPool
}

func newCertificates() (*Certificates, error) {
	serverCA, err := newAuthority("upstream CA")
	if err != nil {
		return nil, err
	}
	clientCA, err := newAuthority("client CA")
	if err != nil {
		return nil, err
	}
	c := &Certificates{CA: serverCA.pem, OtherCA: clientCA.pem, clients: x509.NewCertPool()}
	c.clients.AddCert(clientCA.cert)
	certPEM, keyPEM, err := serverCA.issue(ServerName, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	if c.server, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		return nil, err
	}
	c.ClientCert, c.ClientKey, err = clientCA.issue("client.test", x509.ExtKeyUsageClientAuth)
	return c, err
}

func (c *Certificates) serverConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.server}, NextProtos: []string{"http/1.1"}}
}

// mutualConfig is TLS 1.3 only: there the client's handshake ends before the server has seen its
// certificate, so that a refusal comes after the request was written (RFC 8446 section 2).
func (c *Certificates) mutualConfig() *tls.Config {
	config := c.serverConfig()
	config.MinVersion = tls.VersionTLS13
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = c.clients
	return config
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // the reader never fails
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(30 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(name)
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

func (a *authority) issue(name string, usage x509.ExtKeyUsage) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := template(name)
	t.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	t.DNSNames = []string{name, "localhost"}
	t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}
