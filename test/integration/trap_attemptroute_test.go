package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// Routes for one attempt: the first is of an operation that may be repeated, the second of one that may not.
var attemptRoutes = stack.NewPatch("a route for each attempt",
	stack.Insert(stack.Route("attempts", "app", "payments"),
		`{name: second, match: {prefix: /, headers: [{name: x-envoy-attempt-count, string_match: {exact: "2"}}]}, metadata: {filter_metadata: {verdict: {operation: strict}}}, route: {cluster: app, timeout: 1s}}`),
	stack.Insert(stack.Route("attempts", "app", "payments"),
		`{name: others, match: {prefix: /}, metadata: {filter_metadata: {verdict: {operation: loose}}}, route: {cluster: app, timeout: 1s}}`))

// Of the attempts before nothing is remembered: a second one by a route of its own would take the first for not
// executed, and say so. `check` refuses such routes.
func TestTrapAttemptRoutes(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{attemptRoutes}, Config: trapConfig + `
upstreams:
- clusters: [app]
  operations:
  - {name: loose, route_operation: loose, idempotency: idempotent}
  - {name: strict, route_operation: strict, idempotency: non_idempotent}
`})
	a := s.Do(stack.Request{Method: "POST", Fault: "reset, 429 retry-after=3600", Body: "pay"})
	wantHits(t, s, a, 2, 1)
	wantReport(t, a, stack.Report{Verdict: "denied", Reason: "retry_after_too_long", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "2"})
}
