package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// errorPages is a filter that fetches an error page for a 503, by a GET of its own that takes the place of
// the request.
func errorPages(listener, before, uri string) stack.Patch {
	return stack.NewPatch("error pages are fetched by the hop "+listener+", before "+before, stack.Insert(stack.HTTPFilter(listener, before),
		`{name: pages, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.custom_response.v3.CustomResponse,
			custom_response_matcher: {matcher_list: {matchers: [{
				predicate: {single_predicate: {input: {name: status, typed_config: {"@type": type.googleapis.com/envoy.type.matcher.v3.HttpResponseStatusCodeMatchInput}}, value_match: {exact: "503"}}},
				on_match: {action: {name: page, typed_config: {"@type": type.googleapis.com/envoy.extensions.http.custom_response.redirect_policy.v3.RedirectPolicy,
					uri: "`+uri+`", status_code: 503}}}}]}}}}`))
}

const (
	closedPages = "http://closed.example/page"
	openPages   = "http://app.example/page"
)

// The page's request is a GET that nothing marks, and its refused connection would prove that the POST was not
// sent: it was executed three times. What tells is that the POST's own id is gone.
func TestTrapErrorPages(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, before, uri, evidence string }{
		{"nobody listens", "judge", closedPages, "SENT_NO_RESPONSE"},
		{"nobody listens, behind the facts", "strip", closedPages, "SENT_NO_RESPONSE"},
		{"a page", "strip", openPages, "RESPONSE_RECEIVED"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Config: trapConfig, Patches: []stack.Patch{stack.LabClusters(), errorPages("attempts", test.before, test.uri)}})
			// The page's request repeats the headers of the POST, but only the first attempt counts.
			a := s.Do(stack.Request{Method: "POST", Fault: "503, 200 refused", Body: "pay"})
			if n := s.Upstream.Effects(a.ID); n != 1 {
				t.Errorf("%d side effects", n)
			}
			wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "earlier_attempt", Evidence: test.evidence, Execution: "UNKNOWN", Attempts: "1"})
			if a.Report().AmbiguityID == "" {
				t.Error("no case to reconcile")
			}
		})
	}
	// In the outer hop nothing tells, which is why it is forbidden there too.
	t.Run("in the outer hop", func(t *testing.T) {
		t.Parallel()
		s := start(t, stack.Options{Config: trapConfig, Patches: []stack.Patch{stack.LabClusters(), errorPages("outer", "envoy.filters.http.router", closedPages)}})
		a := s.Do(stack.Request{Method: "POST", Fault: "503", Body: "pay"})
		wantHits(t, s, a, 1, 1)
		if a.Report().AmbiguityID != "" {
			t.Errorf("%+v: the trap does not bite", a.Report())
		}
	})
}

// With Verdict down, the page's request that gets no credential does not show that the POST was not sent.
func TestTrapErrorPagesWithoutVerdict(t *testing.T) {
	t.Parallel()
	l := startCredentials(t, stack.FirstFromVerdict, stack.Options{Patches: []stack.Patch{
		errorPages("attempts", "strip", "http://app1.example/page"), slowUpstream("app1"),
	}}, source{name: "app1"})
	wantStatus(t, l.Do(get("app1")), 200)
	r := with(get("app1"), "POST")
	r.ID, r.Fault = l.NewID(), "503 delay=3s"
	running := l.ask(t, r)
	waitHits(t, l.Stack, r.ID, 1)
	l.KillService(0)
	a := <-running
	wantHits(t, l.Stack, a, 1, 1)
	wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
}
