package listeners

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
)

// names are the clients that may connect.
type names struct {
	uris map[string]bool
	dns  map[string]bool // in lower case
}

func newNames(allowed []string) *names {
	n := &names{uris: make(map[string]bool), dns: make(map[string]bool)}
	for _, name := range allowed {
		if strings.Contains(name, ":") {
			n.uris[name] = true
		} else {
			n.dns[strings.ToLower(name)] = true
		}
	}
	return n
}

// verify refuses a client that has none of the names. It runs within the handshake, when the certificate has
// been verified.
func (n *names) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errNoName
	}
	client := s.PeerCertificates[0]
	for _, uri := range client.URIs {
		if n.uris[uri.String()] {
			return nil
		}
	}
	for _, name := range client.DNSNames {
		if n.dns[strings.ToLower(name)] {
			return nil
		}
	}
	return unlisted{client}
}

var errNoName = errors.New("the client has no certificate")

// unlisted is a client whose certificate is good, and has no name that is listed.
type unlisted struct{ client *x509.Certificate }

// Error names at most eight of the certificate's names.
func (u unlisted) Error() string {
	var has []string
	for _, uri := range u.client.URIs {
		has = append(has, uri.String())
	}
	has = append(has, u.client.DNSNames...)
	return fmt.Sprintf("none of the client's names is in allowed_clients: %.512q", has[:min(len(has), 8)])
}
