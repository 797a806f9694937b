package app

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/internal/config"
)

const readme = "../../README.md"

// docs are the texts for people: the README, and by path each page of docs.
func docs(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) < 5 {
		t.Fatalf("docs: %q, %v", paths, err)
	}
	texts := make(map[string]string)
	for _, path := range append(paths, readme, "../../monitoring/README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(text)
	}
	return texts
}

var (
	codeLine = regexp.MustCompile(`(?m)^    (?:[A-Z_]+=\S+ )*(extproc .*)$`)
	inline   = regexp.MustCompile("`(extproc [^`]+)`")
	comment  = regexp.MustCompile(`\s+[#<].*$`)
)

// TestDocsCommands: the program understands every command that a page shows.
func TestDocsCommands(t *testing.T) {
	understood := 0
	for path, text := range docs(t) {
		for _, found := range slices.Concat(codeLine.FindAllStringSubmatch(text, -1), inline.FindAllStringSubmatch(text, -1)) {
			args := strings.Fields(comment.ReplaceAllString(found[1], ""))[1:]
			parser, err := newParser(new(cli), os.Stdout, os.Stderr, func(int) { t.Errorf("%s: %q exits", path, args) })
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(args, "--help") {
				continue
			}
			// "extproc ledger" in a sentence is all of its commands.
			if _, err := parser.Parse(args); err != nil && !strings.HasPrefix(err.Error(), "expected ") {
				t.Errorf("%s: extproc %s: %v", path, strings.Join(args, " "), err)
			}
			understood++
		}
	}
	if understood < 20 {
		t.Errorf("%d commands found", understood)
	}
}

var yamlFence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestDocsFragments: every piece of configuration that a page shows is a valid file.
func TestDocsFragments(t *testing.T) {
	valid := 0
	for path, text := range docs(t) {
		for _, found := range yamlFence.FindAllStringSubmatch(text, -1) {
			if _, err := config.Parse(path, []byte(found[1])); err != nil {
				t.Errorf("%v\n%s", err, found[1])
			}
			valid++
		}
	}
	if valid < 4 {
		t.Errorf("%d fragments found", valid)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^a-z0-9 -]`)
)

// TestDocsLinks: every link leads somewhere, from the README to every page and back.
func TestDocsLinks(t *testing.T) {
	texts := docs(t)
	linked := map[string][]string{}
	for path, text := range texts {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			target := filepath.Join(filepath.Dir(path), file)
			if file == "" {
				target = path
			}
			linked[path] = append(linked[path], target)
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", path, err)
			} else if anchor != "" && !slices.Contains(slugs(texts[target]), anchor) {
				t.Errorf("%s: %s has no heading #%s", path, target, anchor)
			}
		}
	}
	for path := range texts {
		if path != readme && (!slices.Contains(linked[readme], path) || !slices.Contains(linked[path], readme)) {
			t.Errorf("no link from the README to %s and back", path)
		}
	}
}

func slugs(text string) (all []string) {
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-"))
	}
	return all
}
