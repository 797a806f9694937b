package listeners

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// identity is what the files of a listener say: what it shows, and whom it believes.
type identity struct {
	files    [3][]byte // their content, in the order of fields
	config   *tls.Config
	notAfter time.Time
}

// fields are the fields of ServerTLS, in the order of identity.files.
var fields = [3]string{"cert_file", "key_file", "client_ca_file"}

func paths(t *retryv1.ServerTLS) [3]string {
	return [3]string{t.GetCertFile(), t.GetKeyFile(), t.GetClientCaFile()}
}

// maxFileBytes bounds a file: some thousand certificates.
const maxFileBytes = 4 << 20

// read reads the files that are named. An error begins with the field.
func read(t *retryv1.ServerTLS) (files [3][]byte, err error) {
	for i, path := range paths(t) {
		if path == "" {
			continue
		}
		if files[i], err = readFile(path); err != nil {
			return files, fmt.Errorf("tls.%s: %w", fields[i], err)
		}
	}
	return files, nil
}

func readFile(path string) ([]byte, error) {
	// To open a pipe would wait for whoever is to write into it.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("%s: has more than %d bytes", path, maxFileBytes)
	}
	return data, err
}

// newIdentity makes a listener's side of the handshake from its files. An error begins with the field.
func newIdentity(l *retryv1.Listener, files [3][]byte, protocols []string) (*identity, error) {
	path := paths(l.GetTls())
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file %s, tls.key_file %s: %w", path[0], path[1], err)
	}
	if err := whole(files[0], len(pair.Certificate)); err != nil {
		return nil, fmt.Errorf("tls.cert_file: %s: %w", path[0], err)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair},
		NextProtos:   protocols,
		// Envoy's default as a client is at most TLS 1.2 (1.40).
		MinVersion: tls.VersionTLS12,
		// Those of TLS 1.2 that HTTP/2 allows (RFC 9113, appendix A). TLS 1.3 has its own.
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		// A resumed session would be one that today's authorities and names have not seen.
		SessionTicketsDisabled: true,
	}
	if path[2] != "" {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		if c.ClientCAs, err = pool(files[2]); err != nil {
			return nil, fmt.Errorf("tls.client_ca_file: %s: %w", path[2], err)
		}
	}
	if names := l.GetAllowedClients(); len(names) > 0 {
		c.VerifyConnection = newNames(names).verify
	}
	return &identity{files: files, config: c, notAfter: pair.Leaf.NotAfter}, nil
}

func (i *identity) same(files [3][]byte) bool {
	for j := range files {
		if !bytes.Equal(i.files[j], files[j]) {
			return false
		}
	}
	return true
}
