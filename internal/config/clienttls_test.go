package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// What is not a small regular file is an error that names it, and is not waited for.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	fifo, plain, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "plain"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("plain", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{plain, link} {
		if data, err := ReadFile(path, 4); err != nil || string(data) != "1234" {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	for path, text := range map[string]string{
		fifo: "is not a regular file", dir: "is not a regular file", "/dev/zero": "is not a regular file",
		plain: "has more than 3 bytes", filepath.Join(dir, "none"): "no such file",
	} {
		data, err := ReadFile(path, 3)
		if err == nil || data != nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "1234") {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	for _, files := range []*retryv1.ClientTLS{
		{CaFile: fifo}, {CertFile: fifo, KeyFile: plain}, {CertFile: plain, KeyFile: fifo}, {CaFile: plain}, {CertFile: plain, KeyFile: plain},
	} {
		if c, err := ClientTLS(files); err == nil || c != nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v: %v, %v", files, c, err)
		}
	}
	if c, err := ClientTLS(nil); c != nil || err != nil {
		t.Errorf("nothing declared: %v, %v", c, err)
	}
}
