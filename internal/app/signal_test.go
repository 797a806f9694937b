package app

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSignals: the real program drains at the first SIGTERM and ends at once at the second.
func TestSignals(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "extproc")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/verdictproxy/verdict/cmd/extproc")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start := func(drainTime string) (*exec.Cmd, *buffer, chan error) {
		log := &buffer{}
		c := exec.CommandContext(t.Context(), binary, "serve", "--data-plane=127.0.0.1:0", "--admin=127.0.0.1:0", "--drain-time="+drainTime)
		c.Stderr = log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		eventually(t, log, "msg=serving")
		return c, log, ended
	}

	c, log, ended := start("100ms")
	c.Process.Signal(syscall.SIGTERM)
	if err := within(t, ended); err != nil {
		t.Errorf("after one SIGTERM: %v\n%s", err, log)
	}
	if !strings.Contains(log.String(), "msg=stopped") {
		t.Errorf("it did not stop in order:\n%s", log)
	}

	c, log, ended = start("10m")
	c.Process.Signal(syscall.SIGTERM)
	eventually(t, log, "msg=draining")
	begin := time.Now()
	for { // the first signal's handler goes as the draining begins
		c.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Millisecond):
			continue
		}
		break
	}
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
		t.Errorf("after two SIGTERMs: %v\n%s", c.ProcessState, log)
	}
	if took := time.Since(begin); took > lameDuck {
		t.Errorf("the second SIGTERM took %v", took)
	}
}

func eventually(t *testing.T, log *buffer, word string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !strings.Contains(log.String(), word); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s in the log:\n%s", word, log)
		}
	}
}

func within(t *testing.T, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("the program does not end")
		return nil
	}
}
