package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

var webSocket = []string{"connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="}

var withoutUpgrades = stack.NewPatch("no upgrades in the inner hop", stack.Remove(stack.HCM("attempts")+"/upgrade_configs"))

// besideUpgrade runs a POST, and while the upstream works on it asks for a WebSocket that is refused.
func besideUpgrade(t *testing.T, s *stack.Stack) (post, upgrade stack.Answer) {
	t.Helper()
	r := stack.Request{Method: "POST", Host: "patient.example", ID: s.NewID(), Fault: "ok delay=1.5s", Body: "pay"}
	running := send(t, s, r)
	waitHits(t, s, r.ID, 1)
	upgrade = s.Do(stack.Request{Host: "patient.example", Fault: "403", Header: webSocket})
	return answered(t, running), upgrade
}

// A refused WebSocket is an answer like any other, and harms nobody.
func TestTrapRefusedUpgrade(t *testing.T) {
	t.Parallel()
	t.Run("by the upstream", func(t *testing.T) {
		t.Parallel()
		s := startTrap(t, stack.Options{Patches: []stack.Patch{patient}})
		post, upgrade := besideUpgrade(t, s)
		if upgrade.Status != 403 {
			t.Errorf("the WebSocket: status %d", upgrade.Status)
		}
		wantReport(t, upgrade, stack.Report{Verdict: "denied", Reason: "status_not_retryable", Evidence: "RESPONSE_RECEIVED", Execution: "EXECUTED", Attempts: "1"})
		if post.Status != 200 {
			t.Errorf("the POST beside it: status %d", post.Status)
		}
		wantHits(t, s, post, 1, 1)
	})
	t.Run("by the inner hop", func(t *testing.T) {
		t.Parallel()
		s := startTrap(t, stack.Options{Patches: []stack.Patch{patient, withoutUpgrades}})
		post, upgrade := besideUpgrade(t, s)
		if upgrade.Status != 403 {
			t.Errorf("the WebSocket: status %d", upgrade.Status)
		}
		// The head has not seen it, so that not even the method is known.
		wantReport(t, upgrade, stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN"})
		wantHits(t, s, upgrade, 0, 0)
		if post.Status != 200 {
			t.Errorf("the POST beside it: status %d", post.Status)
		}
	})
}

// In HTTP/2 a WebSocket is a malformed message to a hop that has not allowed it. That ends the connection, and
// a POST on it that was being executed.
func TestTrapRefusedUpgradeBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{patient, http2Hops}})
	post, upgrade := besideUpgrade(t, s)
	if upgrade.Status != 503 {
		t.Errorf("the WebSocket: status %d", upgrade.Status)
	}
	if post.Status != 503 {
		t.Errorf("the POST beside it: status %d: the trap does not bite", post.Status)
	}
	wantHits(t, s, post, 1, 1)
	wantReport(t, post, finalized) // the promise holds even so
}

var upgradesPastTheJudge = stack.NewPatch("upgrades have filters of their own in the inner hop", stack.Set(stack.HCM("attempts")+"/upgrade_configs",
	`[{upgrade_type: websocket, filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]}]`))

// Where upgrades pass other filters, an upstream that refuses one says itself that it is sent again.
func TestTrapUpgradeFilters(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{upgradesPastTheJudge}})
	a := s.Do(stack.Request{Method: "POST", Fault: "503 lies", Header: webSocket})
	if n := len(s.Upstream.Hits(a.ID)); n < 2 {
		t.Errorf("%d hits: the trap does not bite", n)
	}
}
