package integration

import (
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// notInTime is the answer to a retry that would come too late.
func notInTime(execution string) stack.Report {
	return stack.Report{Verdict: "denied", Reason: "deadline", Evidence: "RESPONSE_RECEIVED", Execution: execution, Attempts: "1"}
}

// A wait fits into what the deadline leaves, or the retry is denied at once and costs no token.
func TestWaitFitsDeadline(t *testing.T) {
	t.Parallel()
	options := stack.Options{
		Config: `
defaults: {backoff: {base: 0.001s, max: 0.002s}}
upstreams:
- {clusters: [demanding], policy: {min_attempt_budget: 60s}}
- {clusters: [content], policy: {min_attempt_budget: 2s}}
- {clusters: [slow-to-return], policy: {backoff: {base: 20s, max: 60s, jitter: decorrelated}}}
- {clusters: [wide], policy: {min_attempt_budget: 2s, backoff: {base: 60s, max: 60s}}}
`,
		Patches: []stack.Patch{stack.NewPatch("clusters and deadlines", upstreamLike("demanding", "", ""), upstreamLike("content", "", ""),
			upstreamLike("slow-to-return", "", ""), upstreamLike("wide", "", ""), upstreamLike("timeless", "", ""), upstreamLike("late-429", "", ""),
			outerRoute("/in-1s", "1s"), outerRoute("/in-3s", "3s"), outerRoute("/whenever", "0s"))},
	}
	log := withTokenLog(t, &options)
	s := start(t, options)
	type waitCase struct {
		name    string
		request stack.Request
		host    string
		// report of the one attempt; none: the retry fits.
		report stack.Report
		least  time.Duration
		answer stack.Answer
	}
	cases := []*waitCase{
		{name: "Retry-After beyond the deadline", host: "app", request: toTarget("/in-1s", posting("429 retry-after=2, ok")), report: notInTime("NOT_EXECUTED")},
		{name: "the same of a GET answered 503", host: "late-429", request: toTarget("/in-1s", getting("503 retry-after=2, ok")), report: notInTime("UNKNOWN")},
		{name: "no deadline", host: "timeless", request: toTarget("/whenever", posting("429 retry-after=2, ok")), least: 2 * time.Second},
		{name: "the least backoff is beyond the deadline", host: "slow-to-return", request: getting("503, ok"), report: notInTime("UNKNOWN")},
		{name: "less than the minimum attempt budget is left", host: "demanding", request: getting("503, ok"), report: notInTime("UNKNOWN")},
		{name: "the minimum attempt budget is left", host: "content", request: getting("503, ok")},
	}
	// A backoff of up to a minute is bounded by what 3 s leave after 2 s.
	for range 5 {
		cases = append(cases, &waitCase{name: "a wide backoff", host: "wide", request: toTarget("/in-3s", getting("503, ok"))})
	}
	together(cases, func(c *waitCase) {
		c.request.Host = c.host + ".example"
		c.answer = s.Do(c.request)
	})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			wantReport(t, c.answer, c.report)
			if c.answer.Elapsed < c.least {
				t.Errorf("answered after %v", c.answer.Elapsed)
			}
			if hits := len(s.Upstream.Hits(c.answer.ID)); c.report.Verdict == "" && (c.answer.Status != 200 || hits != 2) {
				t.Errorf("status %d after %d hits", c.answer.Status, hits)
			} else if c.report.Verdict != "" && hits != 1 {
				t.Errorf("%d hits, want 1", hits)
			}
		})
	}
	for upstream, granted := range map[string]int{"app": 0, "late-429": 0, "timeless": 1, "slow-to-return": 0, "demanding": 0, "content": 1, "wide": 5} {
		log.want(t, upstream, granted, 0)
	}
}

// The judge can hold an answer no longer than Envoy's filter lets it: a longer wait is denied at once,
// and no token is taken. Where Verdict is told more than Envoy grants, Envoy goes on without it after
// the message timeout: nothing hangs, nothing is retried, the token goes back.
func TestWaitBeyondMaxMessageTimeout(t *testing.T) {
	t.Parallel()
	const filter = "max_message_timeout"
	judge := stack.DelegatedConfig("attempts", "judge")
	faults := map[string]string{"headers": "429 body=0 ", "body": "429 "}

	t.Run("Verdict knows", func(t *testing.T) {
		t.Parallel()
		options := stack.Options{Config: quick, Patches: []stack.Patch{stack.NewPatch("2 s", stack.Set(judge+"/"+filter, "2s"),
			streamMetadata("attempts", "judge", "x-verdict-max-wait", "2000"))}}
		log := withTokenLog(t, &options)
		s := start(t, options)
		for phase, fault := range faults {
			t.Run(phase, func(t *testing.T) {
				a := s.Do(posting(fault + "retry-after=2, ok"))
				wantReport(t, a, notInTime("NOT_EXECUTED"))
				wantHits(t, s, a, 1, 0)
				log.want(t, "app", 0, 0)
			})
		}
		a := s.Do(posting("429 retry-after=1, ok"))
		if a.Status != 200 || a.Elapsed < time.Second {
			t.Errorf("a wait that fits: status %d after %v", a.Status, a.Elapsed)
		}
		wantHits(t, s, a, 2, 1)
		log.want(t, "app", 1, 0)
	})

	t.Run("Verdict is told more", func(t *testing.T) {
		t.Parallel()
		options := stack.Options{Config: quick, Patches: []stack.Patch{stack.NewPatch("1 s, and nobody says so", stack.Set(judge+"/"+filter, "1s"),
			stack.Set(judge+"/message_timeout", "0.5s"))}}
		log := withTokenLog(t, &options)
		s := start(t, options)
		for phase, fault := range faults {
			t.Run(phase, func(t *testing.T) {
				before := s.ExtProcStat("attempts", "override_message_timeout_ignored")
				granted, returned := log.tokens(t, "app")
				a := s.Do(posting(fault + "retry-after=3, ok"))
				if a.Status != 429 {
					t.Errorf("status %d", a.Status)
				}
				wantReport(t, a, yesNotObeyed)
				wantHits(t, s, a, 1, 0)
				if got := s.ExtProcStat("attempts", "override_message_timeout_ignored") - before; got != 1 {
					t.Errorf("%d overrides were ignored, want 1", got)
				}
				waitFor(t, "the token is back", func() bool {
					g, r := log.tokens(t, "app")
					return g == granted+1 && r == returned+1
				})
			})
		}
		waitFor(t, "nobody waits", func() bool { return s.ServiceMetric(0, "verdict_waiting") == 0 })
	})
}
