package app

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/verdictproxy/verdict/"

// layers, from the outside in. A package imports only packages of its own layer and of layers further
// in. What stands under test/ may import everything, and is imported only from there, by the demo and by
// commands that exist for both.
var layers = []string{"cmd/", "internal/app", "internal/", "pkg/", "api/"}

func layer(path string) int {
	return slices.IndexFunc(layers, func(prefix string) bool {
		return path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")
	})
}

// rules of single packages: who alone may import what.
var rules = []struct {
	what string   // a prefix of import paths
	only []string // prefixes of the packages of this module that may
	why  string
}{
	{"github.com/redis/", []string{"pkg/budget/redis", "test/"}, "one place talks to Redis"},
	{module + "pkg/budget/redis/conn", []string{"pkg/budget/redis", "internal/ledger/redis", "internal/app", "test/"}, "the budget and the ledger are what is kept in Redis"},
	{"golang.org/x/oauth2", []string{"internal/credential", "test/"}, "one package talks to token endpoints"},
	{"github.com/envoyproxy/", []string{"internal/", "test/"}, "pkg/ serves programs with no Envoy"},
	{"google.golang.org/grpc", []string{"internal/", "api/", "test/", "cmd/"}, "pkg/ serves programs with no gRPC"},
	{"google.golang.org/protobuf", []string{"internal/", "api/", "test/", "cmd/"}, "pkg/ knows no wire format"},
	{"github.com/prometheus/", []string{"internal/", "test/", "demo"}, "pkg/ counts nothing for others"},
	{"go.opentelemetry.io/", []string{"internal/tracing", "test/"}, "one package makes spans"},
	{"github.com/alecthomas/kong", []string{"internal/app", "cmd/", "test/", "demo"}, "flags are the program's"},
	{module + "internal/app", []string{"cmd/extproc", "internal/app", "test/"}, "the program is wired in one place"},
	{module + "test/", []string{"test/", "cmd/", "demo"}, "nothing depends on tests"},
	{module + "cmd/", nil, "commands are not imported"},
}

// faults lists what is wrong with one package's direct imports.
func faults(path string, imports []string) (found []string) {
	for _, i := range imports {
		for _, r := range rules {
			allowed := slices.ContainsFunc(r.only, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
			if strings.HasPrefix(i, r.what) && !allowed {
				found = append(found, path+" imports "+i+": "+r.why)
			}
		}
		inner, ok := strings.CutPrefix(i, module)
		if from, to := layer(path), layer(inner); ok && from >= 0 && to >= 0 && to < from {
			found = append(found, path+" imports "+inner+": dependencies point inwards")
		}
	}
	return found
}

// TestDependenciesPointInwards: cmd -> app -> internal -> pkg, and what each layer may know.
func TestDependenciesPointInwards(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		path := strings.TrimPrefix(fields[0], module)
		seen[path] = true
		for _, fault := range faults(path, fields[1:]) {
			t.Error(fault)
		}
		if path == "cmd/extproc" && !slices.Contains(fields, module+"internal/app") {
			t.Error("cmd/extproc does not run internal/app")
		}
	}
	for _, path := range []string{"cmd/extproc", "internal/app", "internal/evidence", "pkg/decision", "pkg/budget/memory"} {
		if !seen[path] {
			t.Errorf("%s was not looked at", path)
		}
	}
}

// TestRulesAreChecked: the check sees what it is there for.
func TestRulesAreChecked(t *testing.T) {
	for _, test := range []struct {
		path, imports string
		want          int
	}{
		{"cmd/extproc", module + "internal/app", 0},
		{"internal/app", module + "internal/config", 0},
		{"internal/extproc", module + "pkg/budget", 0},
		{"internal/config", module + "api/proto/retry/v1", 0},
		{"pkg/budget/redis", "github.com/redis/rueidis", 0},
		{"pkg/decision", "strings", 0},
		{"internal/config", module + "internal/app", 2},
		{"pkg/decision", module + "internal/config", 1},
		{"pkg/budget", module + "internal/evidence", 1},
		{"api/proto/retry/v1", module + "pkg/decision", 1},
		{"pkg/decision", "google.golang.org/grpc", 1},
		{"pkg/decision", "google.golang.org/grpc/codes", 1},
		{"pkg/budget", "github.com/envoyproxy/go-control-plane/envoy/config/core/v3", 1},
		{"pkg/budget/memory", "github.com/redis/rueidis", 1},
		{"internal/app", "github.com/redis/rueidis", 1},
		{"internal/extproc", "go.opentelemetry.io/otel/trace", 1},
		{"internal/ledger/redis", "github.com/redis/rueidis", 1},
		{"internal/ledger/redis", module + "pkg/budget/redis/conn", 0},
		{"internal/ledger/memory", module + "pkg/budget/redis/conn", 1},
		{"internal/app", module + "test/stack", 1},
		{"internal/app", module + "cmd/extproc", 2},
	} {
		if got := faults(test.path, strings.Fields(test.imports)); len(got) != test.want {
			t.Errorf("%s imports %s: %d faults, want %d: %v", test.path, test.imports, len(got), test.want, got)
		}
	}
}
