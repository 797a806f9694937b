package config

import (
	"bytes"
	"regexp"
	"strings"
)

// ofMessage is how protoyaml names a message of the schema.
var ofMessage = regexp.MustCompile(`^expected fields for retry\.v1\.\w+, got `)

// plainly says what protoyaml expected in the words of who writes a file.
func plainly(text string) string {
	text = ofMessage.ReplaceAllString(text, "expected mapping, got ")
	expected, got, ok := strings.Cut(strings.TrimPrefix(text, "expected "), ", got ")
	if !ok || kinds[expected] == "" || kinds[got] == "" {
		return text
	}
	return "expected " + kinds[expected] + ", got " + kinds[got]
}

var kinds = map[string]string{"mapping": "fields", "sequence": "a list", "scalar": "a single value"}

// aboutTabs is what YAML's reader says where a tab indents, among other faults. It is silent on the column, and
// may name the line before.
var aboutTabs = regexp.MustCompile(`cannot start any token|tab character`)

// tabNear returns where a tab stands in the indentation of a line or of the next; column 0 is nowhere.
func tabNear(line int, data []byte) (at, column int) {
	for text := range bytes.Lines(data) {
		at++
		indent := len(text) - len(bytes.TrimLeft(text, " "))
		if (at == line || at == line+1) && indent < len(text) && text[indent] == '\t' {
			return at, indent + 1
		}
	}
	return 0, 0
}
