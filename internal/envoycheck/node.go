package envoycheck

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// node is a place in the file, or nothing (the zero value). Extensions that nobody here knows do not
// matter: it is YAML, not a protobuf message. Aliases and merge keys are followed.
type node struct{ yaml *yaml.Node }

// maxAliases bounds a chain of aliases: YAML lets an anchor contain itself.
const maxAliases = 16

func (n node) resolve() *yaml.Node {
	y := n.yaml
	for i := 0; y != nil && y.Kind == yaml.AliasNode; i++ {
		if i == maxAliases {
			return nil
		}
		y = y.Alias
	}
	return y
}

// get follows field names, each in either of the two spellings that Envoy accepts.
func (n node) get(path ...string) node {
	for _, name := range path {
		n = n.field(name, nil)
	}
	return n
}

// field looks into merge keys too; merged are the mappings that were looked into already.
func (n node) field(name string, merged map[*yaml.Node]bool) node {
	y := n.resolve()
	if y == nil || y.Kind != yaml.MappingNode || merged[y] {
		return node{}
	}
	camel := camelCase(name)
	for i := 0; i+1 < len(y.Content); i += 2 {
		if key := y.Content[i].Value; key == name || key == camel {
			return node{y.Content[i+1]}
		}
	}
	for i := 0; i+1 < len(y.Content); i += 2 {
		if y.Content[i].Value != "<<" {
			continue
		}
		if merged == nil {
			merged = make(map[*yaml.Node]bool)
		}
		merged[y] = true
		sources := node{y.Content[i+1]}.items()
		if sources == nil {
			sources = []node{{y.Content[i+1]}}
		}
		for _, source := range sources {
			if found := source.field(name, merged); found.exists() {
				return found
			}
		}
	}
	return node{}
}

func camelCase(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// exists is false for null too.
func (n node) exists() bool {
	y := n.resolve()
	return y != nil && y.Tag != "!!null"
}

// or returns n, or other where there is no n.
func (n node) or(other node) node {
	if n.exists() {
		return n
	}
	return other
}

func (n node) items() []node {
	y := n.resolve()
	if y == nil || y.Kind != yaml.SequenceNode {
		return nil
	}
	items := make([]node, len(y.Content))
	for i := range y.Content {
		items[i] = node{y.Content[i]}
	}
	return items
}

// text is a scalar's value, "" for anything else.
func (n node) text() string {
	if y := n.resolve(); y != nil && y.Kind == yaml.ScalarNode && y.Tag != "!!null" {
		return y.Value
	}
	return ""
}

func (n node) isTrue() bool { return n.text() == "true" }

// number reads an unsigned integer, of a wrapper message too.
func (n node) number() (uint64, bool) {
	u, err := strconv.ParseUint(n.get("value").or(n).text(), 10, 64)
	return u, err == nil
}

// duration reads protobuf's "1.5s".
func (n node) duration() (time.Duration, bool) {
	d, err := time.ParseDuration(n.text())
	return d, err == nil && strings.HasSuffix(n.text(), "s")
}

// typed unwraps a typed_config: the name of its message, and the message.
func (n node) typed() (message string, config node) {
	config = n.get("typed_config")
	url := config.get("@type").text()
	if strings.HasSuffix(url, ".TypedStruct") {
		url, config = config.get("type_url").text(), config.get("value")
	}
	return url[strings.LastIndexByte(url, '/')+1:], config
}

// maxNodes bounds a walk: aliases can make a small file mean a huge one.
const maxNodes = 100_000

// walk calls f for every node below n and its field name (the last one, inside a list) until f says
// false, which leaves out what is below that node. It reports whether it saw everything.
func (n node) walk(f func(field string, n node) bool) bool {
	left := maxNodes
	var below func(field string, n node)
	below = func(field string, n node) {
		y := n.resolve()
		if left--; y == nil || left < 0 || !f(field, n) {
			return
		}
		for i, child := range y.Content {
			if y.Kind == yaml.MappingNode {
				if i%2 == 0 {
					continue
				}
				below(y.Content[i-1].Value, node{child})
			} else {
				below(field, node{child})
			}
		}
	}
	below("", n)
	return left >= 0
}

// equal reports whether two nodes mean the same, up to the order of fields.
func equal(a, b node) bool {
	return a.exists() && b.exists() && (a.resolve() == b.resolve() || slices.Equal(a.words(), b.words()))
}

func (n node) words() []string {
	var words []string
	n.walk(func(field string, n node) bool {
		words = append(words, field+"="+n.text())
		return true
	})
	slices.Sort(words)
	return words
}
