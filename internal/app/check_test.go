package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/internal/config"
)

const hopYAML = "../../envoy/hop.yaml"

// check runs `extproc check` and returns its exit code and outputs.
func check(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = Run(t.Context(), append([]string{"check"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckShowsWhatItUnderstood(t *testing.T) {
	defaults, err := config.Default().YAML()
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errors := check(t); code != 0 || out != string(defaults) || errors != "" {
		t.Errorf("no file: exit code %d\n%s%s", code, out, errors)
	}
	path := file(t, "upstreams: [{clusters: [app], policy: {max_attempts: 2}}]\n")
	code, out, errors := check(t, path)
	if code != 0 || errors != "" || !strings.Contains(out, "max_attempts: 2\n      min_attempt_budget: 0.050s") {
		t.Errorf("exit code %d\n%s%s", code, out, errors)
	}
	if code, again, errors := check(t, file(t, out)); code != 0 || again != out || errors != "" {
		t.Errorf("its own output: exit code %d\n%s%s", code, again, errors)
	}
}

func TestCheckShowsEveryError(t *testing.T) {
	path := file(t, "defaults:\n  max_attempts: 0\nupstreams:\n- clusters: []\n")
	code, out, errors := check(t, path)
	if want := path + ":2:17: defaults.max_attempts: "; code != 1 || out != "" || !strings.Contains(errors, want) {
		t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errors)
	}
	if want := path + ":4:13: upstreams[0].clusters: "; !strings.Contains(errors, want) {
		t.Errorf("no %q in\n%s", want, errors)
	}
	if n := strings.Count(errors, "\n"); n != 2 {
		t.Errorf("%d lines, want one for each of 2 errors:\n%s", n, errors)
	}
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for _, args := range [][]string{{missing}, {"--envoy", missing}} {
		if code, _, errors := check(t, args...); code != 1 || !strings.Contains(errors, "missing.yaml") {
			t.Errorf("%q: exit code %d\n%s", args, code, errors)
		}
	}
}

func TestCheckEnvoy(t *testing.T) {
	if code, _, errors := check(t, "--envoy", hopYAML); code != 0 || errors != "" {
		t.Errorf("the file that everybody runs: exit code %d\n%s", code, errors)
	}
	hop, err := os.ReadFile(hopYAML)
	if err != nil {
		t.Fatal(err)
	}
	const route = "route: {cluster: app, timeout: 1s}"
	if !strings.Contains(string(hop), route) {
		t.Fatalf("no %q in %s", route, hopYAML)
	}
	broken := file(t, strings.ReplaceAll(string(hop), route, "route: {cluster: app, timeout: 1s, retry_policy: {retry_on: 5xx}}"))
	code, out, errors := check(t, "--envoy", broken)
	if code != 1 || out != "" || !strings.Contains(errors, broken+":") || !strings.Contains(errors, "(inner_retry)") {
		t.Errorf("an inner retry: exit code %d\n%s%s", code, out, errors)
	}
	warned := file(t, strings.ReplaceAll(string(hop), route, "route: {cluster: app, timeout: 20s}"))
	code, out, errors = check(t, "--envoy", warned)
	if code != 0 || out == "" || !strings.Contains(errors, "warning: ") {
		t.Errorf("a warning: exit code %d\n%s%s", code, out, errors)
	}
}

// A misspelt name declares nothing, and the configuration alone cannot show it.
func TestCheckComparesNames(t *testing.T) {
	path := file(t, `
upstreams:
- clusters: [app, ap]
  operations:
  - {route_operation: payments, idempotency: non_idempotent}
  - {route_operation: payment, idempotency: non_idempotent}
`)
	code, _, errors := check(t, path, "--envoy", hopYAML)
	if code != 0 || strings.Count(errors, "\n") != 2 || !strings.Contains(errors, `cluster "ap" is`) || !strings.Contains(errors, `route_operation "payment" is`) {
		t.Errorf("exit code %d\n%s", code, errors)
	}
}

func TestCheckWeightedClustersNeedOneDeclaration(t *testing.T) {
	hop, err := os.ReadFile(hopYAML)
	if err != nil {
		t.Fatal(err)
	}
	envoy := file(t, strings.Replace(string(hop), "route: {cluster: app, timeout: 1s}",
		"route: {weighted_clusters: {clusters: [{name: app, weight: 1}, {name: app-h2, weight: 1}]}, timeout: 1s}", 1))
	if code, _, errors := check(t, "--envoy", envoy); code != 0 || !strings.Contains(errors, "warning: weighted_clusters") {
		t.Errorf("nothing declared: exit code %d\n%s", code, errors)
	}
	together := file(t, "upstreams: [{clusters: [app, app-h2], policy: {max_attempts: 2}}]\n")
	if code, _, errors := check(t, together, "--envoy", envoy); code != 0 {
		t.Errorf("declared together: exit code %d\n%s", code, errors)
	}
	apart := file(t, "upstreams: [{clusters: [app], policy: {max_attempts: 2}}]\n")
	code, _, errors := check(t, apart, "--envoy", envoy)
	if code != 1 || !strings.Contains(errors, `error: weighted_clusters: "app" and "app-h2" are not declared in the same entry`) {
		t.Errorf("declared apart: exit code %d\n%s", code, errors)
	}
}

// After a change of the file an operation counts as UNKNOWN only for as long as a request is said to live.
func TestCheckLongestRequest(t *testing.T) {
	if code, _, errors := check(t, file(t, "longest_request: 10s\n"), "--envoy", hopYAML); code != 0 || errors != "" {
		t.Errorf("as long as the deadline: exit code %d\n%s", code, errors)
	}
	code, _, errors := check(t, file(t, "longest_request: 9.999s\n"), "--envoy", hopYAML)
	if code != 1 || !strings.Contains(errors, "hop.yaml:64:28: error: timeout: 10s is longer than longest_request (9.999s)") {
		t.Errorf("shorter: exit code %d\n%s", code, errors)
	}
}
