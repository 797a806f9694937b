// Command bench measures what Verdict costs, each figure side by side with a yardstick in the same run,
// and ends with a table that says which goals were met. A goal that was missed fails nothing: on a
// machine that does other work too the figures scatter, and the table says by how much.
//
//	make bench
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

// bench is one section of a run.
type bench struct {
	stack.TB
	*results
}

// results are what the sections share.
type results struct {
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
	ok, err := run(asked)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

// run returns false if a section could not measure what it should.
func run(asked []string) (ok bool, err error) {
	var r results
	if r.dir, err = os.MkdirTemp("", "verdict-bench-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(r.dir)
	ok = true
	load := loadAverage()
	for _, s := range sections {
		if len(asked) > 0 && !slices.Contains(asked, s.name) {
			continue
		}
		fmt.Printf("\n=== %s\n", s.name)
		// What a section has started ends with it.
		if !stack.Run(s.name, os.Stderr, func(t stack.TB) { s.run(&bench{t, &r}) }) {
			r.summary.add(s.name, "", "see above", notMeasured)
			ok = false
		}
	}
	fmt.Printf("\nLoad average (1, 5, 15 minutes) before: %s; after: %s. Above about 2.5 at the beginning, repeat.\n\n", load, loadAverage())
	fmt.Print(r.summary.String())
	return ok, nil
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
