package envoycheck

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.yaml.in/yaml/v3"
)

func good(t testing.TB) string { return read(t, "testdata/good.yaml") }

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestNothingToReport(t *testing.T) {
	for _, path := range []string{"testdata/good.yaml", "testdata/credential.yaml", "../../envoy/hop.yaml"} {
		report, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			t.Error(f)
		}
	}
	report := Check("good.yaml", []byte(good(t)))
	if want := []string{"app", "app2"}; !slices.Equal(report.Upstreams, want) {
		t.Errorf("upstreams %q, want %q", report.Upstreams, want)
	}
	if want := []string{"app"}; !slices.Equal(report.Operations, want) {
		t.Errorf("operations %q, want %q", report.Operations, want)
	}
}

// testdata/patches breaks good.yaml in one way at a time. In a patch the lines that begin with "-" are a
// part of the file, there once, and give way to the lines with "+" behind them; "=" parts two that
// follow each other. "drop NAME" takes out the HTTP filter of that name. "credential" patches credential.yaml.
func TestPatches(t *testing.T) {
	fired := make(map[string]bool)
	datadriven.Walk(t, "testdata/patches", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			file := good(t)
			switch d.Cmd {
			case "patch":
				file = patch(t, file, d.Input)
			case "credential":
				file = patch(t, read(t, "testdata/credential.yaml"), d.Input)
			case "drop":
				file = drop(t, file, d.CmdArgs[0].Key)
			case "file":
				file = d.Input
			default:
				t.Fatalf("unknown command %q", d.Cmd)
			}
			var out strings.Builder
			for _, f := range Check("f.yaml", []byte(file)).Findings {
				fired[f.Rule] = true
				fmt.Fprintln(&out, f)
			}
			return out.String()
		})
	})
	for _, r := range rules {
		if !fired[r.name] && r != tooMuch { // TestBombs
			t.Errorf("no patch shows the rule %s", r.name)
		}
	}
}

func patch(t *testing.T, file, lines string) string {
	var from, to []string
	apply := func() {
		if from == nil {
			return
		}
		old := strings.Join(from, "\n")
		if n := strings.Count(file, old); n != 1 {
			t.Fatalf("%q stands %d times", old, n)
		}
		file = strings.Replace(file, old, strings.Join(to, "\n"), 1)
		from, to = nil, nil
	}
	for _, line := range strings.Split(lines, "\n") {
		switch line[0] {
		case '-':
			if to != nil {
				apply()
			}
			from = append(from, line[1:])
		case '+':
			to = append(to, line[1:])
		case '=':
			apply()
		default:
			t.Fatalf("%q begins with neither -, + nor =", line)
		}
	}
	apply()
	return file
}

func drop(t *testing.T, file, name string) string {
	before, rest, found := strings.Cut(file, "          - name: "+name+"\n")
	if !found {
		t.Fatalf("no filter %s", name)
	}
	lines := strings.SplitAfter(rest, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "          - ") || !strings.HasPrefix(line, "           ") {
			return before + strings.Join(lines[i:], "")
		}
	}
	return before
}

// The same file as JSON, in Envoy's other spelling of the field names, and with anchors resolved.
func TestJSON(t *testing.T) {
	for name, file := range map[string]string{
		"good":   good(t),
		"broken": patch(t, good(t), "-route: {cluster: app, timeout: 2s, prefix_rewrite: /}\n+route: {cluster: app, timeout: 2s, retry_policy: {retry_on: 5xx}}"),
	} {
		var content any
		if err := yaml.Unmarshal([]byte(file), &content); err != nil {
			t.Fatal(err)
		}
		data, err := json.MarshalIndent(camelCased(content), "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		want := len(Check("f.yaml", []byte(file)).Findings)
		if got := Check("f.json", data).Findings; len(got) != want {
			t.Errorf("%s: %d findings as YAML, as JSON %v", name, want, got)
		}
	}
}

func camelCased(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any)
		for key, value := range v {
			if !strings.Contains(key, ".") {
				key = camelCase(key)
			}
			m[key] = camelCased(value)
		}
		return m
	case []any:
		for i := range v {
			v[i] = camelCased(v[i])
		}
	}
	return v
}

func TestLoad(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "missing.yaml")); err == nil {
		t.Error("no error for a missing file")
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, []byte(strings.Repeat("#\n", MaxFileBytes/2)+"#"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Load(large); err != nil || len(r.Findings) != 1 || r.Findings[0].Rule != "unreadable" {
		t.Errorf("%v, %v", r.Findings, err)
	}
}

// Aliases that contain themselves, or that double what they stand for.
func TestBombs(t *testing.T) {
	if f := Check("f.yaml", []byte("static_resources: &a {listeners: [*a], clusters: [*a], <<: *a}")).Findings; len(f) != 1 || f[0].Rule != "no_hop" {
		t.Errorf("%v", f)
	}
	bomb := "a0: &a0 {x: y}\n"
	for i := range 40 {
		bomb += fmt.Sprintf("a%d: &a%d {x: *a%d, y: *a%d}\n", i+1, i+1, i, i)
	}
	file := bomb + patch(t, good(t), "-metadata: {filter_metadata: {verdict: {operation: app, retry_policy: any}}}\n+decorator: *a40")
	found := false
	for _, f := range Check("f.yaml", []byte(file)).Findings {
		found = found || f.Rule == "too_much"
	}
	if !found {
		t.Error("the bomb was walked through")
	}
}

// FuzzCheck: no bytes panic, and every finding is one of the list.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(good(f)))
	f.Add([]byte("static_resources: {listeners: [{internal_listener: {}, filter_chains: [{filters: [{typed_config: {'@type': x.HttpConnectionManager}}]}]}]}"))
	f.Add([]byte("static_resources: &a {clusters: [*a], <<: [*a, *a]}"))
	known := make(map[string]bool)
	for _, r := range rules {
		known[r.name] = true
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, finding := range Check("f.yaml", data).Findings {
			if !known[finding.Rule] || !strings.HasPrefix(finding.String(), "f.yaml:") {
				t.Error(finding)
			}
		}
	})
}
