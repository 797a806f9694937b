package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// What must not stand on inner routes, a host for each.
var (
	innerRetry = stack.NewPatch("an inner route that retries",
		upstreamLike("retrying", `{circuit_breakers: {thresholds: [{max_connections: 1}]}}`,
			`{route: {cluster: retrying, timeout: 1s, retry_policy: {retry_on: "5xx", num_retries: 1}}}`),
		func(c *stack.Config) error {
			return stack.Insert(stack.Route("attempts", "retrying", "retrying"), `{name: hold, match: {prefix: /hold}, route: {cluster: retrying, timeout: 60s}}`)(c)
		})
	innerHedge = stack.NewPatch("an inner route that hedges",
		upstreamLike("hedging", "", `{route: {cluster: hedging, timeout: 1s, hedge_policy: {hedge_on_per_try_timeout: true}, retry_policy: {retry_on: "5xx", num_retries: 1, per_try_timeout: 0.2s}}}`))
	innerRedirect = stack.NewPatch("an inner route that follows a redirect, to where nobody listens",
		upstreamLike("redirecting", "", `{match: {path: /pay}, route: {cluster: redirecting, timeout: 1s, internal_redirect_policy: {redirect_response_codes: [302, 303, 307]}}}`),
		func(c *stack.Config) error {
			return stack.Append(stack.VirtualHost("attempts", "redirecting")+"/routes", `{name: gone, match: {prefix: /}, route: {cluster: closed, timeout: 1s}}`)(c)
		})
	innerMirror = stack.NewPatch("an inner route that mirrors",
		upstreamLike("mirroring", "", `{route: {cluster: closed, timeout: 1s, request_mirror_policies: [{cluster: mirroring}]}}`))
	innerCount = stack.NewPatch("an inner virtual host that counts attempts",
		upstreamLike("counting", "", ""),
		stack.Set(stack.VirtualHost("attempts", "counting")+"/include_request_attempt_count", "true"))
)

var forbiddenRoutes = []stack.Patch{stack.LabClusters(), innerRetry, innerHedge, innerRedirect, innerMirror, innerCount}

// redirectedPay is executed by the first server, which sends the client to another place.
func redirectedPay(status int) stack.Request {
	return stack.Request{Method: "POST", Host: "redirecting.example", Target: "/pay", Body: "pay",
		Fault: fmt.Sprintf("%d header:location=http://redirecting.example/other, ok", status)}
}

// Inner routes that send a request again by themselves break the promise, which is why they are forbidden.
// Even so nothing is built on them: what they hide is never taken for NOT_SENT.
func TestTrapInnerRoutes(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: forbiddenRoutes})
	uncertain := stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}

	t.Run("a retry executes a POST twice", func(t *testing.T) {
		a := s.Do(stack.Request{Method: "POST", Host: "retrying.example", Fault: "503", Body: "pay"})
		wantHits(t, s, a, 2, 2)
		wantReport(t, a, gatewayReport)
	})
	t.Run("a second try that waits for the pool hides the first", func(t *testing.T) {
		r := stack.Request{Method: "POST", Host: "retrying.example", ID: s.NewID(), Fault: "503 delay=300ms", Body: "pay"}
		running := send(t, s, r)
		waitHits(t, s, r.ID, 1)
		// It waits for the only connection, and then keeps it.
		send(t, s, stack.Request{Host: "retrying.example", Target: "/hold", Fault: "stuck"})
		s.WaitStat("cluster.retrying.upstream_rq_pending_active", 1)
		a := answered(t, running)
		if a.Status != 504 {
			t.Errorf("status %d", a.Status)
		}
		wantHits(t, s, a, 1, 1)
		wantReport(t, a, uncertain)
	})
	t.Run("a hedge executes a POST twice", func(t *testing.T) {
		a := s.Do(stack.Request{Method: "POST", Host: "hedging.example", Fault: "stuck", Body: "pay"})
		wantHits(t, s, a, 2, 2)
		wantReport(t, a, uncertain)
	})
	for _, status := range []int{302, 303, 307} { // 303 makes a GET of the POST
		t.Run(fmt.Sprintf("a %d hides that the first server has executed", status), func(t *testing.T) {
			a := s.Do(redirectedPay(status))
			wantHits(t, s, a, 1, 1)
			wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "earlier_attempt", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
		})
	}
	t.Run("a mirror executes what was not sent", func(t *testing.T) {
		a := s.Do(stack.Request{Method: "POST", Host: "mirroring.example", Body: "pay"})
		waitHits(t, s, a.ID, 1) // nobody waits for a mirror's answer, nor for its arrival
		wantReport(t, a, stack.Report{Verdict: "denied", Reason: "max_attempts", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "3"})
	})
	t.Run("a route that counts attempts does not mislead", func(t *testing.T) {
		a := s.Do(stack.Request{Host: "counting.example", Fault: "503"})
		wantHits(t, s, a, 3, 3)
		wantReport(t, a, stack.Report{Verdict: "denied", Reason: "max_attempts", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "3"})
	})
}

// Without the marks of a redirect, of which a missing id is one, the second server's refused connection would
// prove that nothing was sent; without the head's copy every attempt would be the first.
func TestTrapInnerRoutesBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: append(forbiddenRoutes,
		stack.NewPatch("the upstream is told the request's own id",
			stack.Set(stack.VirtualHost("attempts", "redirecting")+"/request_headers_to_remove", "[x-envoy-internal]"),
			stack.Set(stack.VirtualHost("attempts", "counting")+"/request_headers_to_remove", "[x-envoy-internal]")),
		stack.NewPatch("the facts say nothing of a redirect", inFacts("redirected=%REQ(X-ENVOY-ORIGINAL-URL):1%", "redirected=")),
		stack.NewPatch("the facts do not use the head's copy", inFacts("%FILTER_STATE(verdict.request:PLAIN)%",
			"id=%REQ(X-VERDICT-ID)% attempt=%REQ(X-ENVOY-ATTEMPT-COUNT)% remaining=%REQ(X-ENVOY-EXPECTED-RQ-TIMEOUT-MS)%")))})
	t.Run("redirect", func(t *testing.T) {
		a := s.Do(redirectedPay(307))
		wantHits(t, s, a, 2, 2) // a side effect is repeated
	})
	t.Run("count", func(t *testing.T) {
		a := s.Do(stack.Request{Host: "counting.example", Fault: "503"})
		wantHits(t, s, a, 4, 4) // max_attempts never comes: router A ends it
		if got := a.Report().Attempts; got != "1" {
			t.Errorf("attempts %q", got)
		}
	})
}

// inFacts replaces a part of the fact header's format.
func inFacts(old, replacement string) stack.Edit {
	return func(c *stack.Config) error {
		value, err := c.Get(stack.DelegatedConfig("attempts", "facts") + "/mutations/response_mutations/0/append/header/value")
		if err != nil {
			return err
		}
		format := value.(string)
		if !strings.Contains(format, old) {
			return fmt.Errorf("no %q in %q", old, format)
		}
		return factValue("x-verdict-facts", strings.Replace(format, old, replacement, 1)).Apply(c)
	}
}
