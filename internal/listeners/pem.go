package listeners

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// pool is stricter than AppendCertsFromPEM, which passes over what it cannot read.
func pool(data []byte) (*x509.CertPool, error) {
	certs, err := certificates(data)
	if err != nil {
		return nil, err
	}
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p, nil
}

// certificates reads every certificate of a PEM file. It does not pass over what it cannot read.
func certificates(data []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	all := data
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a %s is in it, where certificates are expected", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(found)+1, err)
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		return nil, errors.New("no certificate is in it")
	}
	return found, whole(all, len(found))
}

// whole reports a certificate that began and was not read: package pem passes over one that breaks off, as in
// a file that is being written.
func whole(data []byte, found int) error {
	if begun := bytes.Count(data, []byte("-----BEGIN CERTIFICATE-----")); begun != found {
		return fmt.Errorf("%d certificates begin in it, and %d can be read", begun, found)
	}
	return nil
}
