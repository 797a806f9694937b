package envoycheck

import (
	"regexp"
	"slices"

	"github.com/verdictproxy/verdict/internal/evidence"
)

// Unjudged is the filter by which Envoy itself says what is uncertain where Verdict does not answer.
type Unjudged struct {
	Line, Column int // of its matcher, from 1
	// Safe are the methods that it takes for safe.
	Safe []string
	// statuses are the regular expressions that it compares a status with.
	statuses []*regexp.Regexp
}

// Ambiguous reports whether the filter calls an upstream's status ambiguous, as it does 503. It is true where
// that cannot be told.
func (u Unjudged) Ambiguous(status string) bool {
	for _, r := range u.statuses {
		if r.MatchString("503") && !r.MatchString("500") {
			return r.MatchString(status)
		}
	}
	return true
}

// safeMethods are those of RFC 9110 section 9.2.1 that reach an upstream.
var safeMethods = []string{"GET", "HEAD", "OPTIONS", "TRACE"}

// unjudged checks that the filter is there, and labels what the finalizer has not.
func (c *checker) unjudged(h *hop) {
	list := h.hcm.get("http_filters").or(h.hcm)
	at := h.index(func(f filter) bool { return f.matcher.exists() && f.writes(evidence.ReportVerdict) })
	if at < 0 {
		c.report(list, noUnjudged, "nothing sets %s when Verdict does not", evidence.ReportVerdict)
		return
	}
	f := h.filters[at]
	if finalizer := h.index(hasRole("finalizer")); finalizer >= 0 && finalizer < at {
		c.report(f.node, noUnjudged, "it stands behind the finalizer, which would find every answer labelled")
	}
	u := Unjudged{Line: f.matcher.yaml.Line, Column: f.matcher.yaml.Column}
	f.matcher.walk(func(_ string, n node) bool {
		_, input := n.get("input").typed()
		value, err := regexp.Compile(`\A(?:` + n.get("value_match", "safe_regex", "regex").text() + `)\z`)
		switch name := input.get("header_name").text(); {
		case err != nil || !n.get("value_match", "safe_regex").exists():
		case name == ":method":
			for _, method := range safeMethods {
				if value.MatchString(method) && !slices.Contains(u.Safe, method) {
					u.Safe = append(u.Safe, method)
				}
			}
		case name == ":status":
			u.statuses = append(u.statuses, value)
		}
		return true
	})
	c.labels = append(c.labels, u)
}
