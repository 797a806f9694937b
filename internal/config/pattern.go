package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// MaxPath is how much of a path Envoy hands over. A path of so many bytes may be longer, and matches
// no pattern.
const MaxPath = 1024

// pattern is a pattern of http.ServeMux without a host. ServeMux itself reads it first and says what
// is wrong with it, and which two conflict. It does not do the matching: it cleans, redirects and
// decodes paths and it allocates, and it cannot be asked what a path resembles. TestServeMuxAgrees
// holds the two together.
type pattern struct {
	method   string // "": every method
	segments []segment
}

type segment struct {
	kind    segmentKind
	literal string
}

// The kinds are ordered: at the first difference of two overlapping patterns the smaller one is the
// more specific.
type segmentKind uint8

const (
	literal segmentKind = iota
	end                 // {$}: a final slash and nothing behind it
	single              // {name}: one segment
	multi               // {name...} or a final slash: all that follows a slash
)

// parsePattern returns an error that quotes nothing of this program's own.
func parsePattern(text string) (pattern, error) {
	if why := register(http.NewServeMux(), text); why != "" {
		_, reason, found := strings.Cut(why, `": `)
		if !found {
			reason = why
		}
		return pattern{}, errors.New(reason)
	}
	var p pattern
	path := text
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		p.method, path = text[:i], strings.TrimLeft(text[i+1:], " \t")
	}
	if p.method != strings.ToUpper(p.method) {
		return pattern{}, fmt.Errorf("methods are case-sensitive: no request has the method %s", p.method)
	}
	if !strings.HasPrefix(path, "/") {
		return pattern{}, errors.New("a host is not allowed: the upstream is told by its cluster")
	}
	names := strings.Split(path[1:], "/")
	for i, s := range names {
		switch {
		case s == "" && i == len(names)-1:
			p.segments = append(p.segments, segment{kind: multi})
		case s == "{$}":
			p.segments = append(p.segments, segment{kind: end})
		case strings.HasSuffix(s, "...}"):
			p.segments = append(p.segments, segment{kind: multi})
		case strings.HasPrefix(s, "{"):
			p.segments = append(p.segments, segment{kind: single})
		default:
			if s == "" || !isPlain("/"+s) {
				return pattern{}, fmt.Errorf("segment %q matches no path: what servers may read differently is never matched", s)
			}
			p.segments = append(p.segments, segment{kind: literal, literal: s})
		}
	}
	return p, nil
}

// register returns what the ServeMux says against the pattern; then it is as before.
func register(mux *http.ServeMux, pattern string) (why string) {
	defer func() {
		if r := recover(); r != nil {
			why = fmt.Sprint(r)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return ""
}

// patternSet collects patterns of which no two conflict.
type patternSet struct {
	mux   *http.ServeMux
	texts []string
}

// add takes a pattern that parsePattern has read, or returns the one that it conflicts with: they
// overlap, and neither is more specific.
func (s *patternSet) add(text string) (conflict string) {
	if s.mux == nil {
		s.mux = http.NewServeMux()
	}
	if register(s.mux, text) == "" {
		s.texts = append(s.texts, text)
		return ""
	}
	for _, other := range s.texts {
		pair := http.NewServeMux()
		pair.Handle(other, http.NotFoundHandler())
		if register(pair, text) != "" {
			return other
		}
	}
	return "another one" // conflicts are between two patterns
}

// comparePatterns orders patterns so that whatever is more specific stands first.
func comparePatterns(a, b pattern) int {
	bySegments := slices.CompareFunc(a.segments, b.segments, func(s, t segment) int {
		return cmp.Or(cmp.Compare(s.kind, t.kind), strings.Compare(s.literal, t.literal))
	})
	return cmp.Or(bySegments, cmp.Compare(methodRank(a.method), methodRank(b.method)))
}

func methodRank(method string) int {
	switch method {
	case "":
		return 2
	case "GET":
		return 1 // it has HEAD below it
	}
	return 0
}

// matches reports a full match, as http.ServeMux has it.
func (p pattern) matches(method, plainPath string) bool {
	return p.methodMatches(method) && p.pathMatches(plainPath, exactly)
}

// resembles reports whether some server might take the request for one that matches.
func (p pattern) resembles(method, plainPath string) bool {
	return p.methodResembles(method) && p.pathMatches(plainPath, loosely)
}

func (p pattern) methodMatches(method string) bool {
	return p.method == "" || p.method == method || p.method == "GET" && method == "HEAD"
}

func (p pattern) methodResembles(method string) bool {
	return p.methodMatches(strings.ToUpper(method))
}

type spelling uint8

const (
	exactly spelling = iota
	loosely          // whatever the case, the final slash and the segments' file extensions
)

func (p pattern) pathMatches(path string, how spelling) bool {
	for _, s := range p.segments {
		switch s.kind {
		case end:
			return path == "/" || how == loosely && path == ""
		case multi:
			return path != "" || how == loosely
		}
		if path == "" || path == "/" {
			return false
		}
		name := path[1:]
		if i := strings.IndexByte(name, '/'); i >= 0 {
			name = name[:i]
		}
		if s.kind == literal && name != s.literal &&
			(how == exactly || !strings.EqualFold(stem(name), stem(s.literal))) {
			return false
		}
		path = path[1+len(name):]
	}
	return path == "" || how == loosely && path == "/"
}

// stem is a segment without its file extension.
func stem(segment string) string {
	if i := strings.LastIndexByte(segment, '.'); i > 0 {
		return segment[:i]
	}
	return segment
}

// plainPath returns the path without its query, and whether it is plain.
func plainPath(path string) (string, bool) {
	path, _, _ = strings.Cut(path, "?")
	return path, isPlain(path)
}

// isPlain reports whether all servers read the path in the same way, up to case, final slash and file
// extension: no escape, no empty segment, none that ends in a dot, no path parameter, nothing but the
// characters that RFC 3986 section 3.3 has in a path.
func isPlain(path string) bool {
	if len(path) >= MaxPath || !strings.HasPrefix(path, "/") {
		return false
	}
	for i := 1; i < len(path); i++ {
		c, previous := path[i], path[i-1]
		switch {
		case c == '/' && (previous == '/' || previous == '.'):
			return false
		case c == '/', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-._~!$&'()*+,=:@", c) < 0:
			return false
		}
	}
	return path[len(path)-1] != '.'
}
