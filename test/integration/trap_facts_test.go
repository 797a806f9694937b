package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// oddCluster tries to look like other fields of the fact header.
const oddCluster = "x sent=0 tries=1 attempt=1 cluster=app"

// abort refuses every request for refused.example.
const abort = `{name: abort, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault, headers: [{name: ":authority", string_match: {exact: refused.example}}], abort: {http_status: 503, percentage: {numerator: 100}}}}`

var (
	shortDeadline = stack.NewPatch("a deadline that a wait does not fit into", outerHost("hurried", `{timeout: 0.6s}`), upstreamLike("hurried", "", ""))
	abortAfter    = stack.NewPatch("a filter behind the head that refuses", stack.Insert(stack.HTTPFilter("attempts", "strip"), abort))
	abortBefore   = stack.NewPatch("a filter in front of the head that refuses", stack.Insert(stack.HTTPFilter("attempts", "head"), abort))
	oddClusters   = stack.NewPatch("clusters whose names look like facts, and an operation with a blank",
		upstreamLike(oddCluster, "", ""),
		upstreamLike("chosen", "", `{route: {cluster_header: x-cluster, timeout: 1s}}`),
		upstreamLike("weighted", "", fmt.Sprintf(`{route: {weighted_clusters: {clusters: [{name: %q, weight: 1}]}, timeout: 1s}}`, oddCluster)),
		upstreamLike("blank", "", `{metadata: {filter_metadata: {verdict: {operation: "a sent=0"}}}}`))
	noInternalAddresses = stack.NewPatch("nobody is internal to the inner hop", stack.Remove(stack.HCM("attempts")+"/internal_address_config"))
)

const factsConfig = trapConfig + `
upstreams: [{clusters: [app], operations: [{pattern: PUT /log, idempotency: non_idempotent}]}]
`

var (
	refusedByFilter = stack.Report{Verdict: "denied", Reason: "max_attempts", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "3"}
	noEvidence      = stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN"}
	resetReport     = stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
)

func TestTrapFacts(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Config: factsConfig, Patches: []stack.Patch{shortDeadline, abortAfter, oddClusters}})

	t.Run("a wait that does not fit into the deadline is denied at once", func(t *testing.T) {
		a := s.Do(stack.Request{Method: "POST", Host: "hurried.example", Fault: "429 retry-after=1, ok"})
		if a.Status != 429 {
			t.Errorf("status %d", a.Status)
		}
		wantHits(t, s, a, 1, 0)
		wantReport(t, a, stack.Report{Verdict: "denied", Reason: "deadline", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"})
	})
	t.Run("a filter behind the head that refuses", func(t *testing.T) {
		a := s.Do(stack.Request{Method: "POST", Host: "refused.example", Body: "pay"})
		wantReport(t, a, refusedByFilter)
		wantHits(t, s, a, 0, 0)
	})

	chosen := func(cluster string) stack.Request {
		return stack.Request{Method: "POST", Host: "chosen.example", Fault: "reset", Body: "pay", Header: []string{"x-cluster: " + cluster}}
	}
	for _, test := range []struct {
		name    string
		request stack.Request
		hits    int
		want    stack.Report
	}{
		{"a chosen cluster", chosen(oddCluster), 1, resetReport},
		{"a weighted cluster", stack.Request{Method: "POST", Host: "weighted.example", Fault: "reset", Body: "pay"}, 1, resetReport},
		{"a chosen cluster that is not there", chosen("x sent=0 tries=1 cluster=app"), 0,
			stack.Report{Verdict: "denied", Reason: "permanent_failure", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "1"}},
		// A blank that only the operator can write makes the line unreadable: nothing is proven by it.
		{"an operation with a blank", stack.Request{Method: "POST", Host: "blank.example", Fault: "reset", Body: "pay"}, 1, noEvidence},
		{"an operation with a blank, GET", stack.Request{Host: "blank.example", Fault: "503"}, 1, noEvidence},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := s.Do(test.request)
			wantReport(t, a, test.want)
			wantHits(t, s, a, test.hits, test.hits)
			wantNothingInternal(t, a)
		})
	}
	t.Run("the name is read to its end", func(t *testing.T) {
		if n := s.ServiceMetric(0, "verdict_decisions_total", "upstream="+oddCluster); n != 2 {
			t.Errorf("%v decisions on that cluster, want 2", n)
		}
	})
	t.Run("another upstream's operation stays the other's", func(t *testing.T) {
		r := chosen("app")
		r.Method, r.Target = "PUT", "/log"
		wantHits(t, s, s.Do(r), 1, 1)
		r = chosen(oddCluster)
		r.Method, r.Target = "PUT", "/log"
		wantHits(t, s, s.Do(r), 3, 3)
	})
}

// A local reply in front of the head has no facts: nothing is proven, nothing is retried.
func TestTrapFilterBeforeHeadBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{abortBefore}})
	a := s.Do(stack.Request{Method: "POST", Host: "refused.example", Body: "pay"})
	wantReport(t, a, noEvidence)
	wantHits(t, s, a, 0, 0)
	if n := s.ServiceMetric(0, "verdict_facts_missing_total"); n != 1 {
		t.Errorf("%v answers without facts, want 1", n)
	}
}

// To the judge a deadline that the inner hop has dropped looks like none: it waits beyond it, and router A
// ends the wait. `extproc check --envoy` refuses such a file.
func TestTrapDeadlineDroppedBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{shortDeadline, noInternalAddresses}})
	a := s.Do(stack.Request{Method: "POST", Host: "hurried.example", Fault: "429 retry-after=1, ok"})
	if a.Status != 504 || a.Elapsed < 500*time.Millisecond {
		t.Errorf("status %d after %v: the trap does not bite", a.Status, a.Elapsed)
	}
	wantHits(t, s, a, 1, 0)
	wantReport(t, a, finalized)
}

var (
	saidTooMuch = stack.NewPatch("the judge is told of a longer wait than Envoy allows",
		judgeMetadata("x-verdict-max-wait", "60000"), stack.Set(stack.DelegatedConfig("attempts", "judge")+"/max_message_timeout", "1.5s"))
	saidNothing = stack.NewPatch("the judge is not told how long it may wait", judgeMetadata("x-verdict-max-wait", ""))
)

// A wait beyond max_message_timeout makes Envoy fail open. The judge never asks for one that it knows to be
// too long, and for none where it does not know.
func TestTrapWaitLimitBite(t *testing.T) {
	t.Parallel()
	t.Run("told too much", func(t *testing.T) {
		t.Parallel()
		s := startTrap(t, stack.Options{Patches: []stack.Patch{saidTooMuch}})
		// The report on an answer with a body went with the question for the body; the finalizer labels
		// the other.
		for i, body := range []int{30, 0} {
			a := s.Do(stack.Request{Method: "POST", Fault: fmt.Sprintf("429 body=%d retry-after=3, ok", body)})
			if a.Status != 429 || len(a.Body) != body {
				t.Errorf("status %d, body %q: not the original answer", a.Status, a.Body)
			}
			wantHits(t, s, a, 1, 0)
			wantReport(t, a, routerARefused)
			for counter, want := range map[string]int{"override_message_timeout_ignored": i + 1, "failure_mode_allowed": i + 1} {
				if n := s.ExtProcStat("attempts", counter); n != want {
					t.Errorf("%s %d, want %d", counter, n, want)
				}
			}
			if n := s.ServiceMetric(0, "verdict_finalized_total"); n != float64(i) {
				t.Errorf("%v answers finalized, want %d", n, i)
			}
		}
	})
	t.Run("told nothing", func(t *testing.T) {
		t.Parallel()
		s := startTrap(t, stack.Options{Patches: []stack.Patch{saidNothing}})
		for _, fault := range []string{"429, ok", "429 body=0 retry-after=1, ok"} {
			a := s.Do(stack.Request{Method: "POST", Fault: fault})
			wantHits(t, s, a, 1, 0)
			wantReport(t, a, stack.Report{Verdict: "denied", Reason: "deadline", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"})
		}
		a := s.Do(stack.Request{Fault: "reset, ok"})
		wantHits(t, s, a, 1, 1)
	})
}

// What a route removes from answers is gone before the outer filters see it: the finalizer would know
// nothing of an answer that the judge has let pass.
func TestTrapHiddenFactsBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{saidTooMuch, hiddenFacts}})
	a := s.Do(stack.Request{Method: "POST", Fault: "429 body=0 retry-after=3, ok"})
	wantHits(t, s, a, 1, 0)
	wantReport(t, a, finalized) // not routerARefused, as TestTrapWaitLimitBite has it
}

var (
	hiddenFacts = stack.NewPatch("a route that removes internal headers",
		stack.Set(stack.VirtualHost("outer", "all")+"/response_headers_to_remove", "[x-verdict-facts, x-verdict-details]"))
	rawPaths = stack.NewPatch("paths as they come", stack.Remove(stack.HCM("outer")+"/normalize_path"),
		stack.Remove(stack.HCM("outer")+"/merge_slashes"), stack.Remove(stack.HCM("outer")+"/path_with_escaped_slashes_action"))
)

// Where Envoy does not bring paths into one spelling, another spelling loosens nothing: of what is declared
// it gets only what is stricter.
func TestTrapRawPathsBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{rawPaths}, Config: trapConfig + `
upstreams:
- clusters: [app]
  operations:
  - {pattern: "PUT /log/{name}", idempotency: non_idempotent}
  - {pattern: "PUT /orders/{id}", idempotency: idempotent}
  - {pattern: POST /search, idempotency: safe}
`})
	for _, test := range []struct {
		method, target string
		hits           int
	}{
		{"PUT", "/log/a", 1},
		{"PUT", "//log/a", 1},
		{"PUT", "/log//a", 1},
		{"PUT", "/%6cog/a", 1},
		{"PUT", "/log%2fa", 1},
		{"PUT", "/orders/../log/a", 1},
		{"PUT", "/orders/1", 3},
		{"PUT", "/orders//1", 1},
		{"PUT", "/orders/%31", 1},
		{"POST", "/search", 3},
		{"POST", "//search", 1},
		{"POST", "/%73earch", 1},
		{"POST", "/search/.", 1},
	} {
		t.Run(test.method+" "+test.target, func(t *testing.T) {
			a := s.Do(stack.Request{Method: test.method, Target: test.target, Fault: "reset", Body: "pay"})
			wantHits(t, s, a, test.hits, test.hits)
			if hits := s.Upstream.Hits(a.ID); len(hits) > 0 && hits[0].Path != test.target {
				t.Errorf("the upstream was asked for %q", hits[0].Path)
			}
		})
	}
}
