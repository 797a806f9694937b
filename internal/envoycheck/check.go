// Package envoycheck reads an Envoy bootstrap and says what in it falsifies the facts that Verdict
// decides by, or breaks the topology of envoy/hop.yaml. It knows nothing of the fields that do not
// matter for that, and so accepts any extension.
package envoycheck

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// MaxFileBytes bounds an Envoy configuration.
const MaxFileBytes = 16 << 20

// Severity says what a Finding means.
type Severity uint8

const (
	// Error: a promise of Verdict does not hold, or retries do not work.
	Error Severity = iota
	// Warning: it costs something, or it cannot be checked.
	Warning
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Finding is one thing that a file says, or does not say, and why that matters.
type Finding struct {
	File         string
	Line, Column int // from 1; 0 where the file as a whole is meant
	Severity     Severity
	// Rule is the finding's kind, one of a closed list, as in "inner_retry".
	Rule string
	// Text is what was found, and the reason.
	Text string
}

// String is "FILE:LINE:COLUMN: SEVERITY: TEXT (RULE)".
func (f Finding) String() string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
	}
	return fmt.Sprintf("%s: %v: %s (%s)", place, f.Severity, f.Text, f.Rule)
}

// Report is what was read in a file.
type Report struct {
	Findings []Finding // in the file's order
	// Upstreams are the clusters that the inner routes name, Operations what their metadata
	// verdict:operation says: what Verdict's own configuration may speak of. Both sorted.
	Upstreams, Operations []string
	// Splits are the clusters that an inner route chooses among by chance.
	Splits []Split
	// Deadlines are the timeouts that outer routes set.
	Deadlines []Deadline
	// Credentialed says of each cluster where attempts get their credential, once for each way.
	Credentialed []Credentialed
	// Unjudged are the filters by which Envoy itself says what is uncertain, one for each outer hop.
	Unjudged []Unjudged
	// Callers are the clusters by which Envoy calls Verdict, sorted by name.
	Callers []Caller
}

// Split is a place in the file where an inner route spreads its requests, and so the attempts of one
// request, over several clusters.
type Split struct {
	Line, Column int // from 1
	Clusters     []string
}

// Deadline is a place in the file where an outer route says how long a request may take.
type Deadline struct {
	Line, Column int // from 1
	Timeout      time.Duration
}

// Load checks the Envoy bootstrap at path, YAML or JSON. The error is about reading the file; what is
// wrong with its content is a Finding.
func Load(path string) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return Report{}, err
	}
	return Check(path, data), nil
}

// Check checks a file's content; name stands in front of each Finding.
func Check(name string, data []byte) Report {
	c := &checker{file: name, upstreamNames: make(map[string]bool), operations: make(map[string]bool), callers: make(map[string]Caller)}
	if root, err := parse(data); err != nil {
		c.report(node{}, unreadable, "%v", err)
	} else {
		c.bootstrap(root)
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
	return Report{
		Findings:   slices.Compact(c.findings), // one part can be reached by several routes
		Upstreams:  slices.Sorted(maps.Keys(c.upstreamNames)),
		Operations: slices.Sorted(maps.Keys(c.operations)),
		Splits:     c.splits,
		Deadlines:  c.timeouts,

		Credentialed: c.credentialed,
		Unjudged:     c.labels,
		Callers:      slices.SortedFunc(maps.Values(c.callers), func(a, b Caller) int { return cmp.Compare(a.Cluster, b.Cluster) }),
	}
}

func parse(data []byte) (node, error) {
	if len(data) > MaxFileBytes {
		return node{}, fmt.Errorf("more than %d bytes", MaxFileBytes)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var file, second yaml.Node
	if err := decoder.Decode(&file); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("nothing in it")
		}
		return node{}, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return node{}, errors.New("more than one YAML document")
	}
	return node{file.Content[0]}, nil
}

// checker collects findings. The rules are methods; what they report is listed in rules.go.
type checker struct {
	splits       []Split
	timeouts     []Deadline
	credentialed []Credentialed
	labels       []Unjudged
	file         string
	findings     []Finding
	clusters     map[string]node

	upstreamNames, operations map[string]bool
	callers                   map[string]Caller // by name
}

// report adds a finding at the first of the places that exists.
func (c *checker) report(at node, r *rule, format string, args ...any) {
	f := Finding{File: c.file, Severity: r.severity, Rule: r.name, Text: fmt.Sprintf(format, args...) + ": " + r.reason}
	if at.yaml != nil {
		f.Line, f.Column = at.yaml.Line, at.yaml.Column
	}
	c.findings = append(c.findings, f)
}

// forbid reports each of the fields that is set to anything but nothing.
func (c *checker) forbid(at node, r *rule, fields ...string) {
	for _, field := range fields {
		if n := at.get(field); isSet(n) {
			c.report(n, r, "%s", field)
		}
	}
}

func isSet(n node) bool {
	switch n.text() {
	case "false", "0", "0s":
		return false
	}
	return n.exists() && (n.items() == nil || len(n.items()) > 0)
}

// require reports a field that is not true.
func (c *checker) require(at node, r *rule, field string) {
	if n := at.get(field); !n.isTrue() {
		c.report(n.or(at), r, "%s is not true", field)
	}
}
