package integration

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// envoy/hop.yaml, as it stands, is accepted without a word of complaint.
func TestEnvoyAcceptsHop(t *testing.T) {
	t.Parallel()
	file, err := stack.HopFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{stack.EnvoyVersion, stack.OldestEnvoy} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			if log := validate(t, version, file); len(log) > 0 {
				t.Errorf("complaints:\n%s", strings.Join(log, "\n"))
			}
		})
	}
}

// validate runs envoy --mode validate, which must succeed, and returns the lines of its log that are
// warnings or worse.
func validate(t *testing.T, version, file string) []string {
	t.Helper()
	envoy, err := stack.FindEnvoy(version)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), envoy, "--mode", "validate", "-c", file, "--disable-hot-restart", "--log-level", "info").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "' OK") {
		t.Fatalf("envoy %s: %v\n%s", version, err, out)
	}
	var complaints []string
	for line := range strings.Lines(string(out)) {
		for _, level := range []string{"[warning]", "[error]", "[critical]"} {
			if strings.Contains(line, level) {
				complaints = append(complaints, strings.TrimSpace(line))
			}
		}
	}
	return complaints
}
