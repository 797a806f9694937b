package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// tool returns the path of what `make tools` has put into .tools.
func tool(t *testing.T, path ...string) string {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(append([]string{root, ".tools"}, path...)...)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("run `make tools`: %v", err)
	}
	return file
}

// startAPI starts Verdict with no Envoy in front and returns its API's and its admin listener's address.
func startAPI(t *testing.T) (api, admin string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "api") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	api, admin = "unix:"+filepath.Join(dir, "api"), "unix:"+filepath.Join(dir, "admin")
	var log bytes.Buffer
	cmd := exec.Command(extproc, "serve", "--drain-time=0s", "--data-plane=unix:"+filepath.Join(dir, "data"), "--api="+api, "--admin="+admin)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("extproc serve: %v\n%s", err, &log)
		}
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if out, err := output(extproc, "budget", "list", "--server="+api); err == nil {
			return api, admin
		} else if time.Now().After(end) {
			t.Fatal(out)
		}
	}
}

// output runs a command and returns all that it wrote.
func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return string(out), err
}

// wantOutput runs a command that must succeed, or fail, and write what is wanted.
func wantOutput(t *testing.T, succeeds bool, wants []string, name string, args ...string) string {
	t.Helper()
	out, err := output(name, args...)
	if (err == nil) != succeeds {
		t.Errorf("%s %q: %v\n%s", filepath.Base(name), args, err, out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("%s %q: no %q in\n%s", filepath.Base(name), args, want, out)
		}
	}
	return out
}
