package decision

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// banned are imports that would make the rules depend on more than their arguments.
var banned = map[string]string{
	"context":      "rules do not wait, so there is nothing to cancel",
	"crypto/rand":  "randomness is an argument",
	"log":          "what a decision means is logged by whoever asked",
	"log/slog":     "what a decision means is logged by whoever asked",
	"math/rand":    "randomness is an argument",
	"math/rand/v2": "randomness is an argument",
	"net":          "rules do no I/O",
	"net/http":     "rules do no I/O, and serve callers that have none of its types",
	"os":           "rules do no I/O and read no environment",
	"reflect":      "a decision does not allocate",
	"sync":         "rules share no state",
	"sync/atomic":  "rules share no state",
	"unsafe":       "values in, values out",
}

// clocks are the names of package time that read the clock or wait for it.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func TestPureCore(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			read++
			for _, fault := range impurities(t, name, nil) {
				t.Error(fault)
			}
		}
	}
	if read < 10 {
		t.Errorf("only %d files were read", read)
	}
}

// TestPureCoreIsChecked: the check sees what it is there for.
func TestPureCoreIsChecked(t *testing.T) {
	for source, faults := range map[string]int{
		"package p":                     0,
		`package p; import "strings"`:   0,
		`package p; import "sync"`:      1,
		`package p; import "os"`:        1,
		`package p; import . "time"`:    1,
		`package p; import t "time"`:    1,
		`package p; import "a.org/lib"`: 1,
		`package p; import "github.com/verdictproxy/verdict/pkg/budget"`: 1,
		`package p; import "time"; var now = time.Now`:                   1,
		`package p; import "time"; var now = time.Now()`:                 1,
		`package p; import "time"; var hour = time.Hour`:                 0,
	} {
		if got := impurities(t, "source.go", source); len(got) != faults {
			t.Errorf("%d faults, want %d, in %s: %v", len(got), faults, source, got)
		}
	}
}

// impurities lists what keeps a file from being pure; source is nil to read it from disk.
func impurities(t *testing.T, name string, source any) (faults []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	fault := func(n ast.Node, what string) { faults = append(faults, files.Position(n.Pos()).String()+": "+what) }
	for _, i := range file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		root, _, _ := strings.Cut(path, "/")
		switch why := banned[path]; {
		case why != "":
			fault(i, path+": "+why)
		case strings.Contains(root, "."):
			fault(i, path+": the standard library only")
		case i.Name != nil:
			fault(i, path+": imported under another name, which hides the clock from this test")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			for _, clock := range clocks {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && s.Sel.Name == clock {
					fault(s, "time."+clock+": time is an argument")
				}
			}
		}
		return true
	})
	return faults
}
