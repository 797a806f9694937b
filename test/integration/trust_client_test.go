package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/verdictproxy/verdict/test/stack"
)

// The three places where a client can stand: Envoy 1.40 takes nobody for internal unless it is told to,
// and behind another proxy a client says itself where it comes from.
var (
	internalClients = stack.NewPatch("the client's address is internal", stack.Set(stack.HCM("outer")+"/internal_address_config",
		`{cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]}`))
	selfMadeInternal = stack.NewPatch("whoever says 10.0.0.1 is internal", stack.Set(stack.HCM("outer")+"/use_remote_address", "false"),
		stack.Set(stack.HCM("outer")+"/internal_address_config", `{cidr_ranges: [{address_prefix: 10.0.0.0, prefix_len: 8}]}`))
	from10 = []string{"x-forwarded-for: 10.0.0.1"}
)

// trustingClients takes the cure away: what a client sends is not removed.
var trustingClients = stack.NewPatch("no early header mutation", stack.Set(stack.HCM("outer")+"/early_header_mutation_extensions/0/typed_config/mutations",
	`[{append: {append_action: ADD_IF_ABSENT, header: {key: x-verdict-id, value: "%UNIQUE_ID%"}}}]`))

// clientRoutes are places where a client's word about time would show.
var clientRoutes = stack.NewPatch("outer routes with other deadlines, and time for slow answers",
	outerRoute("/in-1s", "1s"), outerRoute("/in-300ms", "0.3s"), outerRoute("/whenever", "0s"),
	stack.Set(stack.Route("attempts", "app", "app")+"/route/timeout", "5s"))

// outerRoute adds a route of the outer listener like its only one, for a prefix, with another deadline.
func outerRoute(prefix, timeout string) stack.Edit {
	return func(c *stack.Config) error {
		path := stack.VirtualHost("outer", "all") + "/routes"
		routes, err := c.Get(path)
		if err != nil {
			return err
		}
		list := routes.([]any)
		text, err := json.Marshal(list[len(list)-1])
		if err != nil {
			return err
		}
		var route map[string]any
		if err := json.Unmarshal(text, &route); err != nil {
			return err
		}
		route["match"] = map[string]any{"prefix": prefix}
		route["route"].(map[string]any)["timeout"] = timeout
		text, err = json.Marshal(route)
		if err != nil {
			return err
		}
		return stack.Insert(path+"/0", string(text))(c)
	}
}

const quick = `
defaults: {backoff: {base: 0.001s, max: 0.002s}, budget: {ratio: 0, min_retries_per_second: 1000}}
`

// What a client's word does without the cure.
const (
	steers  = "it changes verdict, deadline or attempts"
	reaches = "it reaches the upstream"
	nothing = "it does nothing"
)

// A clientWord is what a client says, and a request on which it would have an effect if Envoy or
// Verdict listened.
type clientWord struct {
	header  []string
	request stack.Request
	// uncured is what it does where nobody removes it.
	uncured string
}

var clientWords = []clientWord{
	{header: []string{"x-envoy-retry-on: 5xx"}, request: posting("503"), uncured: steers},
	{header: []string{"X-Envoy-Retry-On: 5xx", "x-envoy-max-retries: 10"}, request: posting("503"), uncured: steers},
	{header: []string{"x-envoy-max-retries: 0"}, request: getting("503"), uncured: steers},
	{header: []string{"x-envoy-retry-grpc-on: unavailable"}, request: posting("grpc:14"), uncured: steers},
	{header: []string{"x-envoy-retriable-header-names: x-n"}, request: posting("ok header:x-n=1"), uncured: steers},
	{header: []string{"x-envoy-retry-on: retriable-status-codes", "x-envoy-retriable-status-codes: 418"}, request: posting("status:418"), uncured: steers},
	{header: []string{"x-envoy-upstream-rq-timeout-ms: 100"}, request: posting("ok delay=300ms"), uncured: steers},
	{header: []string{"x-envoy-upstream-rq-timeout-ms: 9000"}, request: toTarget("/in-1s", getting("429 retry-after=1, ok")), uncured: steers},
	{header: []string{"x-envoy-upstream-rq-per-try-timeout-ms: 100"}, request: posting("ok delay=300ms"), uncured: steers},
	{header: []string{"x-envoy-hedge-on-per-try-timeout: true", "x-envoy-upstream-rq-per-try-timeout-ms: 100", "x-envoy-retry-on: 5xx"}, request: posting("ok delay=600ms"), uncured: steers},
	{header: []string{"x-envoy-upstream-rq-timeout-alt-response: 1"}, request: toTarget("/in-300ms", posting("ok delay=2s")), uncured: steers},
	{header: []string{"x-envoy-upstream-stream-duration-ms: 100"}, request: posting("ok delay=300ms"), uncured: steers},
	{header: []string{"x-envoy-expected-rq-timeout-ms: 77"}, request: toTarget("/whenever", getting("429 retry-after=1, ok")), uncured: steers},
	{header: []string{"x-envoy-attempt-count: 7"}, request: posting("503"), uncured: nothing},
	{header: []string{"x-envoy-attempt-count: 7"}, request: getting("reset, ok"), uncured: nothing},
	{header: []string{"x-envoy-original-url: http://a/"}, request: stack.Request{Method: "POST", Host: "closed.example"}, uncured: steers},
	{header: []string{"x-envoy-internal: true"}, request: posting("503"), uncured: nothing},
	{header: []string{"x-envoy-of-tomorrow: 1"}, request: posting("ok"), uncured: reaches},
	{header: []string{"x-verdict-control: retry"}, request: posting("503"), uncured: reaches},
	{header: []string{"x-verdict-facts: v1 flags=UF", "x-verdict-details: no_healthy_upstream", "x-verdict-transport: x"}, request: posting("503"), uncured: reaches},
	{header: []string{"x-verdict-role: plain", "x-verdict-replay-limit: 0", "x-verdict-retries: 9"}, request: posting("503"), uncured: reaches},
	{header: []string{"x-retry-verdict: denied", "x-retry-reason: max_attempts"}, request: posting("503"), uncured: reaches},
	{header: []string{"connection: x-verdict-id, x-envoy-attempt-count, x-envoy-expected-rq-timeout-ms"}, request: getting("429 retry-after=1, ok"), uncured: nothing},
}

func getting(fault string) stack.Request { return stack.Request{Fault: fault} }
func posting(fault string) stack.Request {
	return stack.Request{Method: "POST", Fault: fault, Body: "pay"}
}

func toTarget(target string, r stack.Request) stack.Request { r.Target = target; return r }

// effect is all that a client's word could change.
type effect struct {
	Status        int
	GRPC          string
	Report        stack.Report
	Hits, Effects int
	// Seen is what the upstream saw of the headers that are not the client's to set, by attempt.
	Seen []string
}

func effectOf(s *stack.Stack, r stack.Request) effect {
	a := s.Do(r)
	e := effect{Status: a.Status, GRPC: a.Header.Get("Grpc-Status"), Report: a.Report(), Effects: s.Upstream.Effects(a.ID)}
	e.Report.AmbiguityID, e.Report.RequestID = "", ""
	for _, hit := range s.Upstream.Hits(a.ID) {
		e.Hits++
		for name, values := range hit.Header {
			if isOurs(name) {
				e.Seen = append(e.Seen, fmt.Sprintf("%d %s: %s", hit.Attempt, name, strings.Join(values, ", ")))
			}
		}
	}
	slices.Sort(e.Seen)
	return e
}

func isOurs(header string) bool {
	header = strings.ToLower(header)
	return strings.HasPrefix(header, "x-envoy-") || strings.HasPrefix(header, "x-verdict-") || strings.HasPrefix(header, "x-retry-")
}

// Nothing that a client says in Envoy's or in Verdict's name has an effect, wherever the client stands.
func TestTrustClient(t *testing.T) {
	t.Parallel()
	for _, client := range []struct {
		name    string
		patches []stack.Patch
		header  []string
	}{
		{name: "external"},
		{name: "internal", patches: []stack.Patch{internalClients}},
		{name: "internal by its own word", patches: []stack.Patch{selfMadeInternal}, header: from10},
	} {
		t.Run(client.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Config: quick, Patches: append(client.patches, clientRoutes, stack.LabClusters())})
			for _, played := range playWords(s, client.header) {
				if diff := cmp.Diff(played.without, played.with); diff != "" {
					t.Errorf("%q, %s %s: the client's word had an effect:\n%s", played.word.header, played.word.request.Method, played.word.request.Fault, diff)
				}
			}
		})
	}
}

// Without the early header mutation nearly every one of these words has an effect; one header of an
// internal client makes router A send a POST again, against the verdict.
func TestTrustClientWithoutTheCure(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{internalClients, trustingClients, clientRoutes, stack.LabClusters()}})
	for _, played := range playWords(s, nil) {
		if got := uncuredEffect(played.without, played.with); got != played.word.uncured {
			t.Errorf("%q: %s, not %s: without the word %+v, with it %+v", played.word.header, got, played.word.uncured, played.without, played.with)
		}
	}
}

// The same where a client makes itself internal: one header, and a POST is executed more than once,
// against the verdict.
func TestTrustClientSelfMadeInternalWithoutTheCure(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{selfMadeInternal, trustingClients}})
	r := posting("503")
	r.Header = append([]string{"x-envoy-retry-on: 5xx"}, from10...)
	a := s.Do(r)
	if n := s.Upstream.Effects(a.ID); n < 2 {
		t.Errorf("%d side effects: nothing to cure", n)
	}
}

func uncuredEffect(without, with effect) string {
	if cmp.Equal(without, with) {
		return nothing
	}
	if without.Seen, with.Seen = nil, nil; cmp.Equal(without, with) {
		return reaches
	}
	return steers
}

type playedWord struct {
	word          clientWord
	without, with effect
}

// playWords plays each request without and with its word, and with the client's other headers.
func playWords(s *stack.Stack, header []string) []*playedWord {
	var all []*playedWord
	for _, word := range clientWords {
		all = append(all, &playedWord{word: word})
	}
	together(all, func(p *playedWord) {
		r := p.word.request
		r.Header = header
		p.without = effectOf(s, r)
		r.Header = slices.Concat(header, p.word.header)
		p.with = effectOf(s, r)
	})
	return all
}

// A client that knows how Verdict talks cannot choose the case id of an uncertain outcome, nor see
// what the upstream is not to see.
func TestTrustClientIDs(t *testing.T) {
	t.Parallel()
	for name, patches := range map[string][]stack.Patch{"external": nil, "internal": {internalClients}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Config: quick, Patches: patches})
			r := stack.Request{Method: "POST", Fault: "reset", Body: "pay", Header: []string{"x-verdict-id: mine", "x-verdict-id: too", "x-retry-ambiguity-id: mine"}}
			id := s.Do(r).Report().AmbiguityID
			if strings.Contains(id, "mine") || len(id) != len("01234567-0123-0123-0123-0123456789ab") {
				t.Errorf("case id %q", id)
			}
			if other := s.Do(r).Report().AmbiguityID; other == id {
				t.Errorf("two requests with case id %q", id)
			}
		})
	}
}

// Trailers of a request are no way in either.
func TestTrustClientTrailers(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{internalClients}})
	r := posting("503")
	r.Host = "h2.example"
	r.Upload = func(w io.Writer) error { _, err := io.WriteString(w, "pay"); return err }
	r.Header = []string{"trailer!x-verdict-control: retry", "trailer!x-envoy-retry-on: 5xx", "trailer!x-retry-verdict: denied"}
	a := s.DoH2(r)
	wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "gateway_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"})
	wantHits(t, s, a, 1, 1)
	if got := s.Upstream.Hits(a.ID)[0].Trailer.Get("X-Verdict-Control"); got != "retry" {
		t.Errorf("the trailer did not pass: %q", got)
	}
}

// The request's own id and the mark of an internal client stay inside Envoy.
func TestTrustUpstreamSeesNothingInternal(t *testing.T) {
	t.Parallel()
	seen := func(s *stack.Stack, host string) (names []string) {
		a := s.Do(stack.Request{Method: "POST", Host: host, Fault: "429, ok", Body: "pay"})
		hits := s.Upstream.Hits(a.ID)
		if len(hits) != 2 {
			t.Errorf("%s: %d hits, want 2", host, len(hits))
		}
		for _, hit := range hits {
			for name := range hit.Header {
				if isOurs(name) && name != "X-Envoy-Attempt-Count" && name != "X-Envoy-Expected-Rq-Timeout-Ms" {
					names = append(names, name)
				}
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	hosts := []string{"app.example", "h2.example"}
	t.Run("cured", func(t *testing.T) {
		t.Parallel()
		s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{internalClients}})
		for _, host := range hosts {
			if names := seen(s, host); names != nil {
				t.Errorf("%s: the upstream saw %q", host, names)
			}
		}
	})
	t.Run("without the cure", func(t *testing.T) {
		t.Parallel()
		s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{internalClients, stack.NewPatch("nothing is removed before the upstream",
			stack.Remove(stack.VirtualHost("attempts", "app")+"/request_headers_to_remove"),
			stack.Remove(stack.VirtualHost("attempts", "app-h2")+"/request_headers_to_remove"))}})
		for _, host := range hosts {
			if names := seen(s, host); !slices.Equal(names, []string{"X-Envoy-Internal", "X-Verdict-Id"}) {
				t.Errorf("%s: the upstream saw %q: nothing to cure", host, names)
			}
		}
	})
}
