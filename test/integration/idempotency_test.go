package integration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

const idempotencyConfig = `
defaults: {backoff: {base: 0.001s, max: 0.002s}}
upstreams:
- clusters: [app]
  operations:
  - {pattern: POST /keyed, idempotency: idempotent_with_key}
  - {pattern: "POST /loose/{id}", idempotency: idempotent}
- clusters: [routed]
  operations: [{route_operation: payments, idempotency: idempotent}]
- clusters: [rewritten]
  operations: [{pattern: PUT /a/b, idempotency: non_idempotent}]
- clusters: [renamed]
  operations: [{pattern: POST /inside/loose, idempotency: idempotent}]
`

// rewriting has routes that rewrite the path's beginning before router B sees it, and one that names its
// operation.
var rewriting = stack.NewPatch("routes that rewrite the path, and one that names its operation",
	upstreamLike("routed", "", `{match: {path: /pay}, metadata: {filter_metadata: {verdict: {operation: payments}}}}`),
	func(c *stack.Config) error {
		return stack.Append(stack.VirtualHost("attempts", "routed")+"/routes", `{name: rest, match: {prefix: /}, route: {cluster: routed, timeout: 1s}}`)(c)
	},
	upstreamLike("rewritten", "", `{match: {prefix: /a}, route: {cluster: rewritten, prefix_rewrite: /api/v1, timeout: 1s}}`),
	upstreamLike("renamed", "", `{match: {prefix: /outside}, route: {cluster: renamed, prefix_rewrite: /inside, timeout: 1s}}`),
	func(c *stack.Config) error {
		// Paths that do not begin with /a reach the upstream too.
		return stack.Append(stack.VirtualHost("attempts", "rewritten")+"/routes", `{name: rest, match: {prefix: /}, route: {cluster: rewritten, timeout: 1s}}`)(c)
	})

const (
	once   = 1 // never sent twice after a reset
	thrice = 3
)

// A POST is sent again after a reset only where the operator has said that it may be: with one valid
// key, on a full match of the pattern, or on the route.
func TestIdempotencyDeclared(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: idempotencyConfig, Patches: []stack.Patch{rewriting}})
	key := func(values ...string) (lines []string) {
		for _, v := range values {
			lines = append(lines, "idempotency-key: "+v)
		}
		return lines
	}
	override := func(name string) []string { return append(key("k"), name+": PUT") }
	for _, test := range []struct {
		name, host, target string
		header             []string
		hits               int
	}{
		{"a key", "app", "/keyed", key("k"), thrice},
		{"255 bytes", "app", "/keyed", key(strings.Repeat("k", 255)), thrice},
		{"256 bytes", "app", "/keyed", key(strings.Repeat("k", 256)), once},
		{"257 bytes", "app", "/keyed", key(strings.Repeat("k", 257)), once},
		{"5000 bytes", "app", "/keyed", key(strings.Repeat("k", 5000)), once},
		{"no key", "app", "/keyed", nil, once},
		{"empty key", "app", "/keyed", key(""), once},
		{"two lines", "app", "/keyed", key("k1", "k2"), once},
		{"two equal lines", "app", "/keyed", key("k", "k"), once},
		{"an empty line first", "app", "/keyed", key("", "k"), once},
		{"an empty line last", "app", "/keyed", key("k", ""), once},
		{"comma", "app", "/keyed", key("k1,k2"), once},
		{"a comma at the end", "app", "/keyed", key("k,"), once},
		{"blanks inside", "app", "/keyed", key("k 1"), thrice},
		{"quoted", "app", "/keyed", key(`"k"`), thrice},
		{"a query", "app", "/keyed?a=/other", key("k"), thrice},
		{"undeclared operation", "app", "/other", key("k"), once},
		{"below the declared one", "app", "/keyed/x", key("k"), once},
		{"a final slash", "app", "/keyed/", key("k"), once},
		{"upper case", "app", "/KEYED", key("k"), once},
		{"a parameter", "app", "/keyed;x", key("k"), once},
		{"X-HTTP-Method-Override", "app", "/keyed", override("x-http-method-override"), once},
		{"X-HTTP-Method", "app", "/keyed", override("x-http-method"), once},
		{"X-Method-Override", "app", "/keyed", override("x-method-override"), once},
		{"an override behind an empty one", "app", "/keyed", append(key("k"), "x-http-method-override:", "x-http-method: POST"), once},
		{"two lines of an override, the first empty", "app", "/keyed", append(key("k"), "x-http-method-override:", "x-http-method-override: DELETE"), once},
		{"two lines of an override, the first a dash", "app", "/keyed", append(key("k"), "x-method-override: -", "x-method-override: DELETE"), once},

		{"pattern", "app", "/loose/1", nil, thrice},
		{"pattern, another spelling that Envoy normalizes", "app", "//loose/%31", nil, thrice},
		{"pattern, dots that Envoy normalizes", "app", "/loose/../loose/1", nil, thrice},
		{"pattern, out of it by dots", "app", "/loose/../other", nil, once},
		{"pattern, too short", "app", "/loose", nil, once},
		{"pattern, too long", "app", "/loose/1/2", nil, once},
		{"pattern, a final slash", "app", "/loose/1/", nil, once},
		{"pattern, an escape", "app", "/loose/%E4", nil, once},
		{"pattern, a parameter", "app", "/loose/1;x", nil, once},
		{"pattern, 1024 bytes", "app", "/loose/" + strings.Repeat("x", 1024-len("/loose/")), nil, once},
		{"pattern, an overridden method", "app", "/loose/1", []string{"x-http-method-override: PATCH"}, once},

		{"the route's operation", "routed", "/pay", nil, thrice},
		{"another route", "routed", "/pay/", nil, once},
		{"the route's operation, an overridden method", "routed", "/pay", []string{"x-method-override: PATCH"}, once},

		// What counts is the path that the client asked for.
		{"a route rewrites it to a declared path", "renamed", "/outside/loose", nil, once},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := s.Do(stack.Request{Method: "POST", Host: test.host + ".example", Target: test.target, Header: test.header, Fault: "reset", Body: "pay"})
			wantHits(t, s, a, test.hits, test.hits)
			want := stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
			if test.hits == thrice {
				want.Verdict, want.Reason, want.Attempts = "denied", "max_attempts", "3"
			}
			wantReport(t, a, want)
			if a.Report().AmbiguityID == "" {
				t.Error("no x-retry-ambiguity-id")
			}
		})
	}
}

// tightened are spellings of PUT /a/b, which was declared non_idempotent, behind a route that rewrites
// /a to /api/v1.
var tightened = []struct {
	target string
	header []string
	status int // 400: Envoy refuses the spelling
}{
	{"/a/b", nil, 503},
	{"//a/b", nil, 503},
	{"/a//b", nil, 503},
	{"/%61/b", nil, 503},
	{"/a/%62", nil, 503},
	{"/a/%2562", nil, 503},
	{"/a/./b", nil, 503},
	{"/x/../a/b", nil, 503},
	{"/a/b;x", nil, 503},
	{"/a;x/b", nil, 503},
	{"/a/b?x", nil, 503},
	{"/a/b/", nil, 503},
	{"/a/B", nil, 503},
	{"/a/b.json", nil, 503},
	{"/a%2fb", nil, 400},
	{"/a/b%2F", nil, 400},
	{"/a%5cb", nil, 400},
	{"/a/b", []string{"x-http-method-override: POST"}, 503},
	{"/a/b", []string{"x-http-method: POST"}, 503},
	{"/a/b", []string{"x-method-override: POST"}, 503},
	{"/api/v1/b", nil, 503}, // the path that the upstream sees
	{"/other", nil, 503},    // no declaration says what this is, so it is as strict
}

// An operation that was declared non_idempotent is never sent twice after a reset, however it is spelled.
func TestIdempotencyTightened(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: idempotencyConfig, Patches: []stack.Patch{rewriting}})
	for _, test := range tightened {
		t.Run(test.target+" "+strings.Join(test.header, ""), func(t *testing.T) {
			t.Parallel()
			a := s.Do(stack.Request{Method: "PUT", Host: "rewritten.example", Target: test.target, Header: test.header, Fault: "reset", Body: "pay"})
			if a.Status != test.status {
				t.Errorf("status %d, want %d", a.Status, test.status)
			}
			if test.status == 400 {
				wantHits(t, s, a, 0, 0)
				return
			}
			wantHits(t, s, a, 1, 1)
			wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
		})
	}
	t.Run("DELETE is not meant", func(t *testing.T) {
		t.Parallel()
		a := s.Do(stack.Request{Method: "DELETE", Host: "rewritten.example", Target: "/a/b", Fault: "reset"})
		wantHits(t, s, a, 3, 3)
	})
	t.Run("the route has rewritten", func(t *testing.T) {
		t.Parallel()
		a := s.Do(stack.Request{Method: "PUT", Host: "rewritten.example", Target: "/a/b", Fault: "ok"})
		hits := s.Upstream.Hits(a.ID)
		if !slices.ContainsFunc(hits, func(h upstream.Hit) bool { return h.Path == "/api/v1/b" }) {
			t.Errorf("hits %+v", hits)
		}
	})
}

// Without the head's copy, what router B has made of the path would count, and the POST that the route
// renames would be sent three times.
func TestIdempotencyWithoutTheHeadsCopy(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: idempotencyConfig, Patches: []stack.Patch{rewriting, factValue("x-verdict-path", "%REQ(:PATH):1024%")}})
	a := s.Do(stack.Request{Method: "POST", Host: "renamed.example", Target: "/outside/loose", Fault: "reset", Body: "pay"})
	wantHits(t, s, a, 3, 3)
}

// factValue replaces the value of one of the fact headers.
func factValue(header, value string) stack.Patch {
	mutations := stack.DelegatedConfig("attempts", "facts") + "/mutations/response_mutations"
	return stack.NewPatch("another "+header, func(c *stack.Config) error {
		list, err := c.Get(mutations)
		if err != nil {
			return err
		}
		for i := range list.([]any) {
			path := fmt.Sprintf("%s/%d/append/header", mutations, i)
			if key, err := c.Get(path + "/key"); err != nil || key != header {
				continue
			}
			return stack.Set(path+"/value", strconv.Quote(value))(c)
		}
		return fmt.Errorf("%s: no %s", mutations, header)
	})
}
