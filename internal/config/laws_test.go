package config

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// The space of the laws: every pattern and path of up to three segments over a small alphabet.
var (
	lawMethods  = []string{"GET", "HEAD", "PUT", "POST", "put", "PURGE"}
	lawPatterns = slices.Concat(
		withMethods(allPaths([]string{"a", "b.x", "{v}"}, []string{"", "/", "/{$}", "/{w...}"})),
		[]string{"PUT /{$}", "/{$}"},
	)
	lawPaths = slices.Concat(
		allPaths([]string{"a", "c", "b.x"}, []string{"", "/"}),
		[]string{"", "*", "a", "//a", "/a//c", "/%61", "/a%2Fc", "/a;x", "/a/../c", "/./a", "/A", "/A/", "/a.x", "/b", "/b/", "/B.x/C", "/a?q", "/c?a/b", "/é", "/a\\c"},
	)
	lawRoutes  = []string{"", "r1", "r2", "undeclared"}
	lawClasses = []decision.Idempotency{decision.NonIdempotent, decision.IdempotentWithKey, decision.Idempotent, decision.Safe}
)

func allPaths(segments, ends []string) []string {
	paths := []string{"/"}
	stems := []string{""}
	for range 2 {
		var longer []string
		for _, stem := range stems {
			for _, s := range segments {
				if s != "{v}" || !strings.Contains(stem, s) {
					longer = append(longer, stem+"/"+s)
				}
			}
		}
		for _, stem := range longer {
			for _, e := range ends {
				paths = append(paths, stem+e)
			}
		}
		stems = longer
	}
	return paths
}

func withMethods(paths []string) []string {
	var patterns []string
	for _, method := range []string{"", "GET ", "HEAD ", "PUT ", "POST "} {
		for _, path := range paths {
			patterns = append(patterns, method+path)
		}
	}
	return patterns
}

// randomSet picks up to n patterns without a conflict.
func randomSet(r *rand.Rand, n int) []string {
	var set patternSet
	for range n {
		set.add(lawPatterns[r.IntN(len(lawPatterns))])
	}
	return set.texts
}

func mustParse(t *testing.T, text string) pattern {
	t.Helper()
	p, err := parsePattern(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

// For plain paths the most specific pattern is the one whose handler a ServeMux calls, if it does not
// redirect the request to a final slash.
func TestServeMuxAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	matched := 0
	for range 300 {
		set := randomSet(r, 8)
		var called string
		mux := http.NewServeMux()
		var byPattern []operation
		for _, p := range set {
			mux.HandleFunc(p, func(http.ResponseWriter, *http.Request) { called = p })
			byPattern = append(byPattern, operation{name: p, class: decision.Safe, pattern: mustParse(t, p)})
		}
		declared := newOperations(byPattern, nil)
		for _, method := range lawMethods {
			for _, path := range lawPaths {
				bare, plain := plainPath(path)
				if !plain {
					continue
				}
				called = ""
				answer := httptest.NewRecorder()
				mux.ServeHTTP(answer, httptest.NewRequest(method, bare, nil))
				if location := answer.Header().Get("Location"); location == bare+"/" {
					continue
				}
				got := ""
				if m := declared.match(method, path); m.op != nil {
					got = m.op.name
				}
				if got != called {
					t.Fatalf("%s %s matches %q, ServeMux calls %q of %q", method, path, got, called, set)
				}
				if got != "" {
					matched++
				}
			}
		}
	}
	if matched < 1000 {
		t.Errorf("only %d matches: the test shows little", matched)
	}
}

// lawCase is a random set of declarations.
type lawCase struct {
	patterns []operation
	routes   map[string]*operation
}

func randomCase(t *testing.T, r *rand.Rand) lawCase {
	c := lawCase{routes: make(map[string]*operation)}
	for _, p := range randomSet(r, r.IntN(5)) {
		c.patterns = append(c.patterns, operation{name: p, class: lawClasses[r.IntN(4)], pattern: mustParse(t, p)})
	}
	for _, route := range []string{"r1", "r2"}[:r.IntN(3)] {
		c.routes[route] = &operation{name: route, class: lawClasses[r.IntN(4)]}
	}
	return c
}

func (c lawCase) operations() operations { return newOperations(slices.Clone(c.patterns), c.routes) }

func everyRequest(f func(method, path, route string)) {
	for _, method := range lawMethods {
		for _, path := range lawPaths {
			for _, route := range lawRoutes {
				f(method, path, route)
			}
		}
	}
}

// Looser than the method only by a full match.
func TestLawLoosening(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		c := randomCase(t, r)
		declared := c.operations()
		everyRequest(func(method, path, route string) {
			name, class := declared.class(method, path, route)
			if class <= decision.MethodClass(method) {
				return
			}
			bare, plain := plainPath(path)
			full := c.routes[route] != nil && c.routes[route].class >= class
			for _, op := range c.patterns {
				full = full || plain && op.class >= class && op.pattern.matches(method, bare)
			}
			if !full || name == "" {
				t.Errorf("%s %s %s is %v by %q of %+v", method, path, route, class, name, c)
			}
		})
	}
}

// One more declaration loosens no request but those that it fully matches, and none at all if it
// says non_idempotent.
func TestLawAddition(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	loosened, tightened := 0, 0
	for range 200 {
		c := randomCase(t, r)
		text := lawPatterns[r.IntN(len(lawPatterns))]
		var texts patternSet
		for _, op := range c.patterns {
			texts.add(op.name)
		}
		if texts.add(text) != "" {
			continue
		}
		added := operation{name: text, class: lawClasses[r.IntN(4)], pattern: mustParse(t, text)}
		before := c.operations()
		c.patterns = append(c.patterns, added)
		after := c.operations()
		everyRequest(func(method, path, route string) {
			_, was := before.class(method, path, route)
			_, is := after.class(method, path, route)
			bare, plain := plainPath(path)
			matches := plain && added.pattern.matches(method, bare)
			if is > was && (!matches || added.class == decision.NonIdempotent) {
				t.Errorf("%s %s %s becomes %v after %v by %v %s, added to %q", method, path, route, is, was, added.class, text, texts.texts)
			}
			if is > was {
				loosened++
			} else if is < was {
				tightened++
			}
		})
	}
	if loosened == 0 || tightened == 0 {
		t.Errorf("%d loosened, %d tightened: the test shows little", loosened, tightened)
	}
}

// Strictest is the least class that any route gives, for every upstream.
func TestLawStrictest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		a, b := randomCase(t, r).operations(), randomCase(t, r).operations()
		c := &Config{upstreams: []*Upstream{{operations: a}, {operations: b}}}
		for _, method := range lawMethods {
			for _, path := range lawPaths {
				want := decision.MethodClass(method)
				for _, route := range lawRoutes {
					_, classA := a.class(method, path, route)
					_, classB := b.class(method, path, route)
					want = min(want, classA, classB)
				}
				if got := c.Strictest(method, path); got != want {
					t.Fatalf("%s %s is %v, want %v", method, path, got, want)
				}
			}
		}
	}
}

// Whatever else is declared more widely, no spelling of a path declared non_idempotent escapes it.
func TestLawSpelling(t *testing.T) {
	for _, wide := range [][]string{
		nil,
		{"idempotent PUT /"},
		{"idempotent /{all...}", "idempotent PUT /{x}"},
		{"safe route r", "idempotent PUT /a/{$}", "idempotent PUT /a/{x}", "idempotent PUT /x/"},
	} {
		u := declare(t, append(wide, "non_idempotent PUT /a/b")...).Upstream("c")
		for _, path := range []string{
			"/a/b", "/a/b?x", "/a/b/", "/A/b", "/a/B/", "/a/b.json", "/a.x/b", "//a/b", "/a//b", "/a/b//", "/%61/b", "/a%2fb", "/a%2Fb",
			"/a/%62", "/a/b;x=1", "/a;x/b", "/a/./b", "/x/../a/b", "/a\\b", "/a/b%00", "/a/b%20", "/a/b ", "/a/b.", "/a/b\t", "/a/b#x", "http://h/a/b",
		} {
			for _, route := range []string{"", "r"} {
				if name, class := u.Operation("PUT", path, route); class != decision.NonIdempotent {
					t.Errorf("PUT %s (route %q) is %v by %q beside %q", path, route, class, name, wide)
				}
			}
		}
	}
}
