// Command bench measures what Verdict costs, each figure side by side with a yardstick in the same run,
// and ends with a table that says which goals were met. A goal that was missed fails nothing: on a
// machine that does other work too the figures scatter, and the table says by how much.
//
//	go run ./test/bench [decide] [budget] [judge] [waiting] [healthy]
//
// Without arguments it runs everything, in about two minutes on two processors.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/verdictproxy/verdict/test/stack"
)

// section measures one thing and adds rows to the summary.
type section struct {
	name string
	run  func(*bench)
}

var sections = []section{
	{"decide", (*bench).decide},
	{"budget", (*bench).budget},
	{"judge", (*bench).judge},
	{"waiting", (*bench).waiting},
	{"healthy", (*bench).healthy},
}

// bench is one run.
type bench struct {
	stack.TB
	dir     string // of the binaries
	service string // the binary of extproc, once it is built
	summary summary
}

func main() {
	asked := os.Args[1:]
	for _, name := range asked {
		if !slices.ContainsFunc(sections, func(s section) bool { return s.name == name }) {
			fmt.Fprintf(os.Stderr, "bench: no section %q\n", name)
			os.Exit(2)
		}
	}
	if !stack.Run("bench", os.Stderr, func(t stack.TB) { run(t, asked) }) {
		os.Exit(1)
	}
}

func run(t stack.TB, asked []string) {
	dir, err := os.MkdirTemp("", "verdict-bench-")
	if err != nil {
		t.Fatalf("bench: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bench{TB: t, dir: dir}
	load := loadAverage()
	for _, s := range sections {
		if len(asked) == 0 || slices.Contains(asked, s.name) {
			fmt.Printf("\n=== %s\n", s.name)
			s.run(b)
		}
	}
	fmt.Printf("\nLoad average (1, 5, 15 minutes) before: %s; after: %s. Above about 2.5 at the beginning, repeat.\n\n", load, loadAverage())
	fmt.Print(b.summary.String())
}

// must ends the run where something could not be measured.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatalf("bench: %v", err)
	}
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
