package budget_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the budget may import, with all that this imports in turn. The rest of the world stays out so
// that a program with no Envoy and no Redis can use it; a remote backend is a package of its own.
func TestImports(t *testing.T) {
	const here = "github.com/verdictproxy/verdict/pkg/budget"
	const lru = "github.com/hashicorp/golang-lru/v2/"
	for pkg, allowed := range map[string][]string{
		here:                 {here},
		here + "/memory":     {here, here + "/memory", here + "/internal/accounts", lru + "simplelru", lru + "internal"},
		here + "/budgettest": {here, here + "/budgettest"},
	} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg)
		out, err := list.Output()
		if err != nil {
			t.Fatalf("%v: %v", list, err)
		}
		deps := strings.Fields(string(out))
		if len(deps) == 0 {
			t.Fatalf("%v lists nothing", list)
		}
		for _, dep := range deps {
			if !slices.Contains(allowed, dep) {
				t.Errorf("%s must not depend on %s", pkg, dep)
			}
		}
	}
}

// The arithmetic takes time as an argument: in this package nobody reads a clock, waits, or draws
// random numbers.
func TestNoClock(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		checked++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := call.X.(*ast.Ident)
			banned := []string{"Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker"}
			if ok && (pkg.Name == "time" && slices.Contains(banned, call.Sel.Name) || pkg.Name == "rand") {
				t.Errorf("%s: %s.%s", name, pkg.Name, call.Sel.Name)
			}
			return true
		})
	}
	if checked < 4 {
		t.Fatalf("only %d files", checked)
	}
}
