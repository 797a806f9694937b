package evidence

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/internal/config"
)

// What one of Envoy's files says, as far as the boundary goes.
type envoyFile struct {
	names      map[string]bool   // every name of ours, wherever it stands
	formats    map[string]string // headers and filter-state objects that it writes
	metadata   map[string]bool   // initial metadata of its streams
	attributes map[string]bool
	operations bool // a route has metadata verdict: {operation: ...}
}

var ourName = regexp.MustCompile(`\b(x-verdict|x-retry)-[a-z-]*|\bverdict\.[a-z_]+`)

func readEnvoyFile(t *testing.T, path string) envoyFile {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var root any
	if err := yaml.Unmarshal(data, &root); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	f := envoyFile{map[string]bool{}, map[string]string{}, map[string]bool{}, map[string]bool{}, false}
	f.read(t, root)
	return f
}

func (f *envoyFile) read(t *testing.T, v any) {
	switch v := v.(type) {
	case string:
		for _, name := range ourName.FindAllString(strings.ToLower(v), -1) {
			f.names[name] = true
		}
	case []any:
		for _, item := range v {
			f.read(t, item)
		}
	case map[string]any:
		f.readMap(t, v)
		for _, item := range v {
			f.read(t, item)
		}
	}
}

func (f *envoyFile) readMap(t *testing.T, m map[string]any) {
	if header := dig(m, "append", "header"); header != nil {
		f.writes(t, text(header, "key"), text(header, "value"))
	}
	if object := text(m, "object_key"); object != "" {
		f.writes(t, object, text(m, "format_string", "text_format_source", "inline_string"))
	}
	if list, ok := m["initial_metadata"].([]any); ok {
		for _, entry := range list {
			f.metadata[text(entry, "key")] = true
		}
	}
	for _, key := range []string{"request_attributes", "response_attributes"} {
		list, _ := m[key].([]any)
		for _, entry := range list {
			f.attributes[entry.(string)] = true
		}
	}
	f.operations = f.operations || text(m, "filter_metadata", "verdict", "operation") != ""
}

// writes notes a format; a name that is written in two places must be written by one format, but for the
// credential's state, which is written twice on purpose.
func (f *envoyFile) writes(t *testing.T, name, format string) {
	if !ourName.MatchString(name) || strings.HasPrefix(name, PrefixReport) {
		return // reports are Verdict's words, not facts
	}
	if old, ok := f.formats[name]; ok && name == credentialState {
		format = old + ", then " + format
	} else if ok && old != format {
		t.Errorf("%s is written by two formats", name)
	}
	f.formats[name] = format
}

func dig(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func text(v any, path ...string) string {
	s, _ := dig(v, path...).(string)
	return s
}

// constants returns the string constants of names.go: name of the constant -> value.
func constants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if i < len(spec.Values) {
				if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					found[name.Name], _ = strconv.Unquote(lit.Value)
				}
			}
		}
		return true
	})
	if len(found) < 30 {
		t.Fatalf("only %d constants in names.go", len(found))
	}
	return found
}

// TestNamesMatchEnvoyFiles: the files that users run and the code know the same names, in both
// directions, and Envoy writes each fact by the format that the code reads.
func TestNamesMatchEnvoyFiles(t *testing.T) {
	f := readEnvoyFile(t, "../../envoy/hop.yaml")
	credential := readEnvoyFile(t, "../../envoy/credential.yaml")
	if want := map[string]bool{attributeCluster: true}; !maps.Equal(credential.attributes, want) {
		t.Errorf("attributes of the credential filter %v, want %v", credential.attributes, want)
	}
	maps.Copy(f.names, credential.names)
	maps.Copy(f.metadata, credential.metadata)
	maps.Copy(f.formats, credential.formats)

	known := map[string]bool{}
	metadata := map[string]bool{}
	for constant, value := range constants(t) {
		if ourName.MatchString(value) {
			known[value] = true
		}
		if strings.HasPrefix(constant, "Metadata") {
			metadata[value] = true
		}
	}
	sameKeys(t, "names", f.names, known, ReportRequestID)
	sameKeys(t, "stream metadata", f.metadata, metadata)
	sameKeys(t, "formats", f.formats, formats)
	for name, want := range formats {
		if got := f.formats[name]; got != want {
			t.Errorf("%s is written by\n%s\nand read as\n%s", name, got, want)
		}
	}
	for _, name := range append([]string{"idempotency-key"}, methodOverrides...) {
		if !f.attributes["request.headers['"+name+"']"] {
			t.Errorf("no attribute for the request header %s", name)
		}
	}
	if len(f.attributes) != 1+len(methodOverrides) {
		t.Errorf("attributes %v", slices.Collect(maps.Keys(f.attributes)))
	}
	if !f.operations {
		t.Error("no route names its operation as the facts read it")
	}
}

func sameKeys[A, B any](t *testing.T, what string, file map[string]A, code map[string]B, except ...string) {
	t.Helper()
	for name := range file {
		if _, ok := code[name]; !ok {
			t.Errorf("%s: the file has %s, the code does not", what, name)
		}
	}
	for name := range code {
		if _, ok := file[name]; !ok && !slices.Contains(except, name) {
			t.Errorf("%s: the code has %s, the file does not", what, name)
		}
	}
}

// TestFormatsAgree: the formats write what the parsers read, and bound what a client sizes where the
// parsers think that they do.
func TestFormatsAgree(t *testing.T) {
	placeholder := regexp.MustCompile(`%[^%]+%`)
	head := placeholder.ReplaceAllString(formats[filterStateHead], "7")
	line := strings.ReplaceAll(formats[factsHeader], "%FILTER_STATE(verdict.request:PLAIN)%", head)
	if _, ok := parseFacts(placeholder.ReplaceAllString(line, "7")); !ok {
		t.Error("the facts' format is not what parseFacts reads")
	}
	answer := headers(outerHeader, placeholder.ReplaceAllString(formats[outerHeader], "7"), outerDetails, "x")
	if _, ok := parseOuter(answer); !ok {
		t.Error("the outer facts' format is not what parseOuter reads")
	}
	for name, limit := range map[string]int{factPath: config.MaxPath, outerPath: config.MaxPath, factKey: factKeyLimit} {
		if !strings.HasSuffix(formats[name], ":"+strconv.Itoa(limit)+"%") {
			t.Errorf("%s is not cut at %d bytes", name, limit)
		}
	}
	if got := "%REQ(" + strings.ToUpper(ownID) + ")%"; !strings.Contains(formats[filterStateHead], "id="+got+" ") || !strings.HasSuffix(formats[outerHeader], " id="+got) {
		t.Errorf("the formats do not read %s", ownID)
	}
	for _, name := range methodOverrides {
		if !strings.Contains(strings.ToLower(formats[factOverride]), name) || formats[outerOverride] != formats[factOverride] {
			t.Errorf("the formats do not look for %s", name)
		}
	}
}
