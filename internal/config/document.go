package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"buf.build/go/protovalidate"
	"buf.build/go/protoyaml"
	"go.yaml.in/yaml/v3"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// MaxFileBytes bounds a configuration file.
const MaxFileBytes = 1 << 20

// document is a file: what it says, where, and what is wrong with it.
type document struct {
	name     string
	root     *yaml.Node // nil: nothing but blanks and comments
	config   retryv1.Config
	problems Problems
	warnings Problems
	places   map[place]bool // of the problems
}

type place struct{ line, column int }

// read goes on after a problem for as long as what comes next can still be understood.
func read(name string, data []byte) *document {
	d := &document{name: name}
	if !d.readNodes(data) {
		return d
	}
	d.readMessage(data)
	d.validate()
	return d
}

// readNodes is stricter than YAML: what the schema's reader would pass over in silence, or what would
// make a place in the file ambiguous, is a problem.
func (d *document) readNodes(data []byte) bool {
	switch {
	case len(data) > MaxFileBytes:
		return d.reject("has more than %d bytes", MaxFileBytes)
	case !utf8.Valid(data):
		return d.reject("is not UTF-8")
	case bytes.ContainsAny(data, "\u0085\u2028\u2029") || bytes.Contains(bytes.ReplaceAll(data, []byte("\r\n"), nil), []byte("\r")):
		return d.reject("has line breaks other than LF and CR LF")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var file, second yaml.Node
	if err := decoder.Decode(&file); errors.Is(err, io.EOF) {
		return false
	} else if err != nil {
		return d.rejectSyntax(err, data)
	}
	if err := decoder.Decode(&second); err == nil {
		d.add(&second, "", "a second YAML document would not be read")
		return false
	} else if !errors.Is(err, io.EOF) {
		return d.rejectSyntax(err, data)
	}
	d.root = file.Content[0]
	if n, envoys := d.find([]any{"static_resources"}); envoys {
		d.add(n, "", "this is an Envoy bootstrap: extproc check verdict.yaml --envoy envoy.yaml takes both")
		return false
	}
	d.checkNodes(d.root)
	return len(d.problems) == 0
}

func (d *document) checkNodes(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.add(n, "", "anchors and aliases are not supported: what holds for every upstream stands in defaults")
		return
	case n.Style&yaml.TaggedStyle != 0:
		d.add(n, "", "YAML tags are not supported")
	case n.Tag == "!!null" && n.Value != "":
		d.add(n, "", "null is not supported: leave the field out")
	}
	seen := make(map[string]bool)
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch key := child.Value; {
			case child.Kind != yaml.ScalarNode || !fieldName.MatchString(key):
				d.add(child, "", "field names are written in lower case, with underscores")
			case seen[key]:
				d.add(child, "", "field %q stands here twice", key)
			default:
				seen[key] = true
			}
		}
		d.checkNodes(child)
	}
}

var fieldName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// protoyamlPlace is how protoyaml begins an error: it has no other way to tell the place.
var protoyamlPlace = regexp.MustCompile(`^:(\d+):(\d+) `)

func (d *document) readMessage(data []byte) {
	err := protoyaml.Unmarshal(data, &d.config)
	if err == nil {
		return
	}
	for _, err := range unjoin(err) {
		text := err.Error()
		problem := Problem{File: d.name, Text: plainly(text)}
		if at := protoyamlPlace.FindStringSubmatch(text); at != nil {
			problem.Line, _ = strconv.Atoi(at[1])
			problem.Column, _ = strconv.Atoi(at[2])
			problem.Text = plainly(errors.Unwrap(err).Error())
		}
		d.addProblem(problem)
	}
}

func (d *document) validate() {
	err := protovalidate.Validate(&d.config)
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		if err != nil {
			d.reject("%v", err)
		}
		return
	}
	for _, violation := range invalid.Violations {
		var path []any
		for _, element := range violation.Proto.GetField().GetElements() {
			path = append(path, element.GetFieldName())
			if element.HasIndex() {
				path = append(path, int(element.GetIndex()))
			}
		}
		d.addAt(path, "%s", violation.Proto.GetMessage())
	}
}

func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// find returns the node at a path of field names and list indexes, or the last one on the way to it.
func (d *document) find(path []any) (n *yaml.Node, exact bool) {
	n = d.root
	if n == nil {
		return nil, false
	}
	for _, step := range path {
		next := (*yaml.Node)(nil)
		switch step := step.(type) {
		case string:
			for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
				if n.Content[i].Value == step {
					next = n.Content[i+1]
				}
			}
		case int:
			if n.Kind == yaml.SequenceNode && step < len(n.Content) {
				next = n.Content[step]
			}
		}
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}

// addAt adds a problem of the field at the path. One that has a problem already keeps that one: what
// could not be read cannot be in range either.
func (d *document) addAt(path []any, format string, args ...any) {
	n, exact := d.find(path)
	if exact && n.Kind != yaml.MappingNode {
		if d.places[place{n.Line, n.Column}] {
			return
		}
	}
	d.add(n, fieldPath(path), format, args...)
}

func (d *document) add(n *yaml.Node, field, format string, args ...any) {
	p := Problem{File: d.name, Text: fmt.Sprintf(format, args...)}
	if field != "" {
		p.Text = field + ": " + p.Text
	}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	d.addProblem(p)
}

// warnAt adds a warning of the field at the path.
func (d *document) warnAt(path []any, format string, args ...any) {
	w := Problem{File: d.name, Text: "warning: " + fieldPath(path) + ": " + fmt.Sprintf(format, args...)}
	if n, _ := d.find(path); n != nil {
		w.Line, w.Column = n.Line, n.Column
	}
	d.warnings = append(d.warnings, w)
}

func (d *document) addProblem(p Problem) {
	if d.places == nil {
		d.places = make(map[place]bool)
	}
	d.problems = append(d.problems, p)
	d.places[place{p.Line, p.Column}] = true
}

func (d *document) reject(format string, args ...any) bool {
	d.add(nil, "", format, args...)
	return false
}

var yamlPlace = regexp.MustCompile(`^yaml: line (\d+): `)

func (d *document) rejectSyntax(err error, data []byte) bool {
	p := Problem{File: d.name, Text: strings.TrimPrefix(err.Error(), "yaml: ")}
	if at := yamlPlace.FindStringSubmatch(err.Error()); at != nil {
		p.Line, _ = strconv.Atoi(at[1])
		p.Text = strings.TrimPrefix(err.Error(), at[0])
	}
	if line, column := tabNear(p.Line, data); column > 0 && aboutTabs.MatchString(p.Text) {
		p.Line, p.Column, p.Text = line, column, "a tab stands here: YAML is indented by blanks"
	}
	d.addProblem(p)
	return false
}

// fieldPath writes a path as "upstreams[0].policy.max_attempts".
func fieldPath(path []any) string {
	var b strings.Builder
	for i, step := range path {
		switch step := step.(type) {
		case string:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		}
	}
	return b.String()
}
