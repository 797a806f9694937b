package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// unwatched: Envoy does not notice that Verdict hangs, and so goes on asking it; each time it gives up soon.
var unwatched = stack.NewPatch("no health check notices, message timeouts are short",
	stack.Set(stack.Cluster("verdict")+"/health_checks/0/interval", "60s"),
	stack.Set(stack.Cluster("verdict")+"/health_checks/0/no_traffic_interval", "60s"),
	stack.Set(stack.DelegatedConfig("attempts", "judge")+"/message_timeout", "0.3s"),
	stack.Set(stack.DelegatedConfig("outer", "finalizer")+"/message_timeout", "0.3s"))

// lyingTrailers is the option by which an upstream says in trailers what "lies" says in headers.
func lyingTrailers() string {
	var options []string
	for _, name := range upstream.LyingHeaderNames() {
		value := "lie"
		if name == "x-verdict-control" {
			value = "retry"
		}
		options = append(options, "trailer:"+name+"="+value)
	}
	return strings.Join(options, " ")
}

// lyingAnswers are the places of an answer in which an upstream can lie.
var lyingAnswers = []struct{ name, options string }{
	{"in the headers", "lies envoy-lies"},
	{"in early hints", "info=103 lies envoy-lies"},
	{"in the headers of a large answer", "lies envoy-lies body=100kB"},
	{"in trailers", lyingTrailers()},
	{"in headers and trailers", "lies envoy-lies " + lyingTrailers()},
	{"about the health of its host", "header:x-envoy-immediate-health-check-fail=true"},
}

// An upstream cannot speak in Verdict's name: with Verdict up, killed and hung, its lies change neither
// attempts nor report, and none of them reaches a client.
func TestTrustUpstream(t *testing.T) {
	t.Parallel()
	judged := stack.Report{Verdict: "ambiguous", Reason: "gateway_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"}
	unjudged := stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
	for _, service := range []struct {
		name    string
		patches []stack.Patch
		disturb func(*stack.Stack)
		report  stack.Report
	}{
		{"up", nil, func(*stack.Stack) {}, judged},
		{"killed", nil, func(s *stack.Stack) { s.KillService(0) }, unjudged},
		{"hung", []stack.Patch{unwatched}, func(s *stack.Stack) { s.StopService(0) }, unjudged},
	} {
		t.Run(service.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Config: quick, Patches: service.patches})
			service.disturb(s)
			type lieCase struct {
				name    string
				request stack.Request
				status  int
				report  stack.Report
				answers []stack.Answer
			}
			var cases []*lieCase
			for _, lie := range lyingAnswers {
				for _, host := range []string{"app.example", "h2.example"} {
					for status, report := range map[int]stack.Report{200: {}, 503: service.report} {
						r := posting(fmt.Sprintf("status:%d %s", status, lie.options))
						r.Host = host
						cases = append(cases, &lieCase{name: fmt.Sprintf("%s %s %d", lie.name, host, status), request: r, status: status, report: report})
					}
				}
			}
			together(cases, func(c *lieCase) { c.answers = []stack.Answer{s.Do(c.request), s.DoH2(c.request)} })
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					for _, a := range c.answers {
						wantUnaffected(t, s, a, c.status, c.report)
					}
				})
			}
		})
	}
}

func wantUnaffected(t *testing.T, s *stack.Stack, a stack.Answer, status int, report stack.Report) {
	t.Helper()
	if a.Status != status {
		t.Errorf("status %d, want %d: %s", a.Status, status, a.Body)
	}
	wantReport(t, a, report)
	wantHits(t, s, a, 1, 1)
	wantNothingInternal(t, a)
	for name, values := range a.Trailer {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-retry-") || strings.HasPrefix(lower, "x-verdict-") {
			t.Errorf("trailer %s: %s has left Envoy", name, values)
		}
	}
	if strings.Contains(strings.Join(slices.Concat(a.Header["X-Retry-Reason"], a.Header["X-Retry-Ambiguity-Id"]), ""), "lie") {
		t.Errorf("the upstream's report has left Envoy: %+v", a.Report())
	}
	if len(a.Interim) > 0 {
		t.Errorf("interim answers %v have left Envoy", a.Interim)
	}
}

// Without strip an upstream makes router A execute a POST again, Verdict up or down; without sweep
// Verdict's own talk reaches the client.
func TestTrustUpstreamWithoutTheCure(t *testing.T) {
	t.Parallel()
	lie := posting("status:503 lies " + lyingTrailers())
	lie.Host = "h2.example"
	for _, down := range []bool{true, false} {
		t.Run("no strip, down="+map[bool]string{true: "yes", false: "no"}[down], func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Down: down, Config: quick, Patches: []stack.Patch{
				stack.NewPatch("the upstream is believed", stack.Remove(stack.HTTPFilter("attempts", "strip")))}})
			a := s.DoH2(lie)
			if n := s.Upstream.Effects(a.ID); down && n < 2 {
				t.Errorf("%d side effects: nothing to cure", n)
			}
			if _, leaked := a.Trailer["X-Retry-Verdict"]; !leaked {
				t.Errorf("trailers %v: nothing to cure", a.Trailer)
			}
		})
		t.Run("no sweep, down="+map[bool]string{true: "yes", false: "no"}[down], func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Down: down, Config: quick, Patches: []stack.Patch{
				stack.NewPatch("nothing is removed before the client", stack.Remove(stack.HTTPFilter("outer", "sweep")))}})
			if a := s.Do(lie); a.HeadersWith("x-verdict-") == nil {
				t.Errorf("headers %v: nothing to cure", a.Header)
			}
		})
	}
}
