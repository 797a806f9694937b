package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"syscall"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// ClientTLS reads the files; nil where nothing is declared. An error names the file.
func ClientTLS(t *retryv1.ClientTLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.GetServerName(), MinVersion: tls.VersionTLS12}
	if file := t.GetCaFile(); file != "" {
		pem, err := ReadFile(file, MaxFileBytes)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in it", file)
		}
	}
	if t.GetCertFile() != "" {
		cert, err := ReadFile(t.GetCertFile(), MaxFileBytes)
		if err != nil {
			return nil, err
		}
		key, err := ReadFile(t.GetKeyFile(), MaxFileBytes)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", t.GetCertFile(), t.GetKeyFile(), err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// ReadFile reads a regular file of at most limit bytes. Whatever else stands at the path (a directory, a
// pipe that nobody writes, a device that never ends) is an error and not waited for. An error names the
// file and holds nothing of its content.
func ReadFile(path string, limit int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, fmt.Errorf("%s: has more than %d bytes", path, limit)
	}
	return data, nil
}
