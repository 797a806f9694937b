package telemetry

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// used is a registry with every metric in it, each vector with a value.
func used(t *testing.T) (*prometheus.Registry, *Metrics) {
	t.Helper()
	r := prometheus.NewRegistry()
	m := New(r)
	Waiting(r, func() int64 { return 3 })
	EventLog(r, func() bool { return true })
	Switches(r, func() bool { return true }, func() []string { return []string{"a", "b"} })
	m.Accounts(r, func() []budget.State { return []budget.State{{Upstream: "app", EarnedMilli: 1500, ReserveLeft: 7}} })
	m.Decision("app", decision.Decision{Verdict: decision.Denied, Reason: decision.ReasonMaxAttempts, Evidence: decision.SentNoResponse, Uncertain: true})
	m.FirstAttempts("app", 2)
	m.CutOff("app")
	m.Waited.Observe(0.1)
	m.Took("judge", time.Millisecond)
	return r, m
}

// TestLint: names, types and help texts as Prometheus wants them, and no metric that nobody looked at.
func TestLint(t *testing.T) {
	r, _ := used(t)
	problems, err := testutil.GatherAndLint(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "verdict_") || f.GetHelp() == "" {
			t.Errorf("%s: %q", f.GetName(), f.GetHelp())
		}
	}
	if len(families) != 16 {
		t.Errorf("%d metrics", len(families))
	}
}

func TestDecisions(t *testing.T) {
	r, m := used(t)
	// A retry is no outcome yet.
	m.Decision("app", decision.Decision{Verdict: decision.Retry, Evidence: decision.SentNoResponse, Uncertain: true})
	m.Decision("app", decision.Decision{Verdict: decision.Ambiguous, Reason: decision.ReasonGatewayStatus, Evidence: decision.ResponseReceived, Uncertain: true})
	m.Decision("app", decision.Decision{Verdict: decision.Complete, Evidence: decision.ResponseReceived})
	want := `
# HELP verdict_decisions_total Decisions on failing answers. A retry is counted once it is said.
# TYPE verdict_decisions_total counter
verdict_decisions_total{evidence="RESPONSE_RECEIVED",reason="gateway_status",upstream="app",verdict="ambiguous"} 1
verdict_decisions_total{evidence="RESPONSE_RECEIVED",reason="none",upstream="app",verdict="complete"} 1
verdict_decisions_total{evidence="SENT_NO_RESPONSE",reason="max_attempts",upstream="app",verdict="denied"} 1
verdict_decisions_total{evidence="SENT_NO_RESPONSE",reason="none",upstream="app",verdict="retry"} 1
# HELP verdict_uncertain_outcomes_total Requests that ended in a failure and may have been executed, whatever the verdict's word.
# TYPE verdict_uncertain_outcomes_total counter
verdict_uncertain_outcomes_total{upstream="app"} 2
# HELP verdict_waiting Failed answers that are held now until their backoff is over.
# TYPE verdict_waiting gauge
verdict_waiting 3
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "verdict_decisions_total", "verdict_uncertain_outcomes_total", "verdict_waiting"); err != nil {
		t.Error(err)
	}
}

// TestLabelsAreBounded: whatever names a peer sends, and in whatever order, there are no more labels
// than the limit and one; a known name keeps its own.
func TestLabelsAreBounded(t *testing.T) {
	r := prometheus.NewRegistry()
	m := New(r)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 2 * maxUpstreams {
				m.CutOff(fmt.Sprintf("upstream-%d", i))
			}
		})
	}
	all.Wait()
	for _, name := range []string{"", "\xff", "a\xc0b", strings.Repeat("x", 1<<16)} {
		m.CutOff(name)
	}
	if got := testutil.CollectAndCount(m.cutOff); got != maxUpstreams+1 {
		t.Errorf("%d labels, want %d", got, maxUpstreams+1)
	}
	if got := m.upstream("upstream-0"); got != "upstream-0" {
		t.Errorf("a known upstream is now %q", got)
	}
	for _, name := range []string{"", "\xff", "another"} {
		if got := m.upstream(name); got != OtherUpstreams {
			t.Errorf("%q is %q", name, got)
		}
	}
	if got := testutil.ToFloat64(m.cutOff.WithLabelValues(OtherUpstreams)); got != 4*maxUpstreams+4 {
		t.Errorf("%v events share a label, want %v", got, 4*maxUpstreams+4)
	}
}

// TestWordsAreLabels: no value that an enum can have makes a label that Prometheus refuses.
func TestWordsAreLabels(t *testing.T) {
	m := New(prometheus.NewRegistry())
	for i := range 256 {
		m.Decision("app", decision.Decision{Verdict: decision.Verdict(i), Reason: decision.Reason(i), Evidence: decision.Evidence(i)})
	}
	if got := testutil.CollectAndCount(m.decisions); got > len(decision.Reasons())+2 {
		t.Errorf("%d time series", got)
	}
}

// TestState: accounts beyond the limit of labels share one, which shows their sum.
func TestState(t *testing.T) {
	r, m := used(t)
	want := `
# HELP verdict_budget_earned_tokens Retries that first attempts of the last interval can pay for now.
# TYPE verdict_budget_earned_tokens gauge
verdict_budget_earned_tokens{upstream="app"} 1.5
# HELP verdict_budget_event_log_broken 1 once the budget's event log could not be written: no retry is granted until a restart.
# TYPE verdict_budget_event_log_broken gauge
verdict_budget_event_log_broken 1
# HELP verdict_budget_reserve_tokens Retries that the reserve can pay for now.
# TYPE verdict_budget_reserve_tokens gauge
verdict_budget_reserve_tokens{upstream="app"} 7
# HELP verdict_drained_upstreams Upstreams towards which an operator has denied retries.
# TYPE verdict_drained_upstreams gauge
verdict_drained_upstreams 2
# HELP verdict_retries_killed 1 while an operator's kill switch denies all retries.
# TYPE verdict_retries_killed gauge
verdict_retries_killed 1
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "verdict_budget_earned_tokens", "verdict_budget_event_log_broken",
		"verdict_budget_reserve_tokens", "verdict_drained_upstreams", "verdict_retries_killed"); err != nil {
		t.Error(err)
	}
	for i := range 2 * maxUpstreams {
		m.CutOff(fmt.Sprintf("upstream-%d", i))
	}
	many := prometheus.NewRegistry()
	m.Accounts(many, func() []budget.State {
		return []budget.State{{Upstream: "late-1", EarnedMilli: 1000}, {Upstream: "", EarnedMilli: 250}, {Upstream: "late-2", EarnedMilli: 500}}
	})
	want = `
# HELP verdict_budget_earned_tokens Retries that first attempts of the last interval can pay for now.
# TYPE verdict_budget_earned_tokens gauge
verdict_budget_earned_tokens{upstream="other"} 1.75
`
	if err := testutil.GatherAndCompare(many, strings.NewReader(want), "verdict_budget_earned_tokens"); err != nil {
		t.Error(err)
	}
}
