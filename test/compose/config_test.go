package compose

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// configured makes a folder that is mounted instead of compose/verdict: the same files, and an API listener
// with TLS.
func configured(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.CopyFS(dir, os.DirFS(root+"/compose/verdict")))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"verdict"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	must(os.WriteFile(filepath.Join(dir, "server.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o644))
	must(os.WriteFile(filepath.Join(dir, "server.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o644))
	file := filepath.Join(dir, "verdict.yaml")
	text, err := os.ReadFile(file)
	must(err)
	text = append(bytes.TrimSpace(text), "\nlisteners: {api: {tls: {cert_file: /etc/verdict/server.crt, key_file: /etc/verdict/server.key}}}\n"...)
	must(os.WriteFile(file, text, 0o644))
	for folder := dir; folder != os.TempDir() && folder != "/"; folder = filepath.Dir(folder) {
		must(os.Chmod(folder, 0o755)) // for the containers' user
	}
	return dir
}
