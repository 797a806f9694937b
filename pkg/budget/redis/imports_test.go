package redis

import (
	"os/exec"
	"strings"
	"testing"
)

// The Redis client is imported below here and nowhere else in the module.
func TestOnlyImporter(t *testing.T) {
	const module = "github.com/verdictproxy/verdict/"
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}", module+"...")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	found := false
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(line, " ")
		if !strings.Contains(imports, "github.com/redis/") {
			continue
		}
		if !strings.HasPrefix(pkg, module+"pkg/budget/redis") {
			t.Errorf("%s imports the Redis client", pkg)
		}
		found = true
	}
	if !found {
		t.Error("nobody imports it: this test looks for the wrong thing")
	}
}
