package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

var update = flag.Bool("update", false, "write the table into the README")

const (
	tableBegin = "<!-- what the demo expects; `go test ./demo -update` writes it -->\n"
	tableEnd   = "<!-- end -->\n"
)

// TestReadmeTable holds the README's table to what the demo expects of each scenario, and so to what it
// has seen when it exits 0.
func TestReadmeTable(t *testing.T) {
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(readme), tableBegin)
	got, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	if want := markdownTable(); got != want {
		if !*update {
			t.Fatalf("the README's table is not what the demo expects; run go test ./demo -update\ngot:\n%s\nwant:\n%s", got, want)
		}
		if err := os.WriteFile(path, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n := fmt.Sprintf("%d scenarios", len(scenarios)+len(withCredential(nil))+len(withoutVerdict)); !bytes.Contains(readme, []byte(n)) {
		t.Errorf("the README does not say that there are %s", n)
	}
}

func markdownTable() string {
	var b strings.Builder
	b.WriteString("\n| scenario | what the upstream did | evidence | verdict | attempts | hits | the client saw |\n|---|---|---|---|---|---|---|\n")
	for _, list := range [][]scenario{scenarios, withCredential(nil), withoutVerdict} {
		for _, s := range list {
			w := s.want
			verdict := dash(squeeze(w.verdicts))
			if w.reason != "" {
				verdict += "(" + w.reason + ")"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %d | %s |\n", s.name, s.did, dash(squeeze(w.evidence)), verdict,
				w.attempts, w.hits, clientSaw(w.status, w.uncertain, w.problem))
		}
	}
	b.WriteString("\n")
	return b.String()
}
