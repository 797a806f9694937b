package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// testdata/parse shows files and what they mean: the file with everything written out, or every error.
func TestParse(t *testing.T) {
	datadriven.Walk(t, "testdata/parse", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			c, err := Parse("f.yaml", []byte(d.Input))
			if err != nil {
				return err.Error()
			}
			out, err := c.YAML()
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse("again.yaml", out)
			if err != nil {
				t.Fatalf("what was understood is not understood again: %v\n%s", err, out)
			}
			out2, err := again.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(out), string(out2)); diff != "" {
				t.Errorf("what was understood means something else: (-first +second)\n%s", diff)
			}
			return string(out)
		})
	})
}

func TestDefault(t *testing.T) {
	c := Default()
	u := c.Upstream("anything")
	if got, want := u.Policy(), decision.DefaultPolicy(); got != want {
		t.Errorf("policy %+v, want %+v", got, want)
	}
	if got, want := u.Budget(), budget.DefaultSettings(); got != want {
		t.Errorf("budget %+v, want %+v", got, want)
	}
	if u.AmbiguousStatus() != 0 || u.Name() != "" || len(c.Clusters()) != 0 {
		t.Errorf("ambiguous status %d, name %q, clusters %q", u.AmbiguousStatus(), u.Name(), c.Clusters())
	}
	for _, method := range []string{"GET", "PUT", "POST"} {
		if name, class := u.Operation(method, "/", "route"); name != "" || class != decision.MethodClass(method) {
			t.Errorf("%s is %q, %v", method, name, class)
		}
	}
}

func TestUpstream(t *testing.T) {
	c, err := Parse("f.yaml", []byte(`
defaults: {max_attempts: 4, transient_statuses: [500], ambiguous_status: 500}
upstreams:
- clusters: [a, b]
  policy:
    min_attempt_budget: 0.2s
    backoff: {max: 5s, jitter: decorrelated, retry_after_cap: 20s}
    transient_statuses: [599, 501]
    distrusted_statuses: [429]
    replay_on_401: idempotent
    budget: {ratio: 0.001, min_retries_per_second: 0.5, interval: 2s}
    ambiguous_status: 502
  operations: [{route_operation: b, idempotency: safe}, {route_operation: a, idempotency: safe}]
- clusters: [c]
  policy: {transient_statuses: []}
  operations: [{route_operation: b, idempotency: safe}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := decision.DefaultPolicy()
	want.MaxAttempts = 4
	want.Transient.Add(500)
	if got := c.Upstream("other"); got.Policy() != want || got.AmbiguousStatus() != 500 {
		t.Errorf("undeclared: %+v, %d", got.Policy(), got.AmbiguousStatus())
	}
	want.Transient = decision.StatusSet{}
	if got := c.Upstream("c"); got.Policy() != want || got.Budget() != budget.DefaultSettings() || got.Name() != "c" {
		t.Errorf("c: %+v, %v", got.Policy(), got.Budget())
	}

	want.MinAttemptBudget = 200e6
	want.Backoff = decision.Backoff{Base: 25e6, Max: 5e9, Jitter: decision.DecorrelatedJitter}
	want.RetryAfterCap = 20e9
	want.Transient.Add(501)
	want.Transient.Add(599)
	want.Distrusted.Add(429)
	want.ReplayOn401 = decision.ReplayIdempotent
	a := c.Upstream("a")
	if a != c.Upstream("b") || a.Name() != "a" || a.AmbiguousStatus() != 502 {
		t.Errorf("a is %q, status %d", a.Name(), a.AmbiguousStatus())
	}
	if got := a.Policy(); got != want {
		t.Errorf("a: %+v, want %+v", got, want)
	}
	if got, want := a.Budget(), (budget.Settings{Ratio: 1, Reserve: 1, Interval: 2e9}); got != want {
		t.Errorf("a: %v, want %v", got, want)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, c.Clusters()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, c.RouteOperations()); diff != "" {
		t.Error(diff)
	}
}

func TestLoad(t *testing.T) {
	if c, err := Load(""); err != nil || c.Upstream("x").Policy() != decision.DefaultPolicy() {
		t.Errorf("no file: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	path := filepath.Join(t.TempDir(), "verdict.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("defaults: {max_attempts: 1}")
	if c, err := Load(path); err != nil || c.Upstream("x").Policy().MaxAttempts != 1 {
		t.Errorf("a good file: %v", err)
	}
	write("defaults: {max_attempts: 0}")
	var problems Problems
	if _, err := Load(path); !errors.As(err, &problems) || len(problems) != 1 || problems[0].File != path || problems[0].Line != 1 || problems[0].Column != 26 {
		t.Errorf("a bad file: %v", err)
	}
	write(strings.Repeat("#\n", MaxFileBytes/2))
	if _, err := Load(path); err != nil {
		t.Errorf("a file of the greatest size: %v", err)
	}
	write(strings.Repeat("#\n", MaxFileBytes/2) + "#")
	if _, err := Load(path); err == nil {
		t.Error("a larger file is read")
	}
}

// Bytes that no text file in testdata can hold.
func TestParseEncoding(t *testing.T) {
	const text = "defaults: {max_attempts: 2}\n"
	for name, data := range map[string]string{
		"UTF-16":    "\xff\xfed\x00:\x00",
		"not UTF-8": "# \xff\n" + text,
		"CR":        "# old Mac\r" + text,
		"NEL":       "# \u0085" + text,
		"LS":        "# \u2028" + text,
		"control":   "# \x01\n" + text,
	} {
		if _, err := Parse("f.yaml", []byte(data)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, data := range map[string]string{
		"BOM":   "\ufeff" + text,
		"CR LF": strings.ReplaceAll("# x\n"+text, "\n", "\r\n"),
	} {
		if c, err := Parse("f.yaml", []byte(data)); err != nil || c.Upstream("x").Policy().MaxAttempts != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file that grows when its aliases are expanded, one that is as deep as it is long, one of errors.
func TestParseBombs(t *testing.T) {
	aliases := "a0: &a0 [x]\n"
	for i := range 30 {
		aliases += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	deep := strings.Repeat("[", MaxFileBytes)
	block := strings.Repeat("- ", MaxFileBytes/2)
	empty := "upstreams: [" + strings.Repeat("{},", MaxFileBytes/64) + "]"
	for _, data := range []string{aliases, deep, block, empty} {
		if _, err := Parse("f.yaml", []byte(data)); err == nil {
			t.Errorf("no error for %.20q...", data)
		}
	}
}
