package integration

import (
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
	"github.com/verdictproxy/verdict/test/stack"
)

// What was earned by way of one Envoy or one Verdict pays for retries by way of any, and once: two
// replicas behind one Envoy, and two Envoys with a Verdict each, on one Redis.
func TestRedisOneBudget(t *testing.T) {
	t.Parallel()
	for name, c := range redisTopologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newEventLog(t)
			options := stack.Options{Replicas: c.replicas, ExtprocArgs: log.args(), Config: `
budget: {backend: redis, address: "` + redistest.Start(t, redistest.Binary(t)).Address + `"}
defaults:
  backoff: {base: 0.001s, max: 0.002s}
  budget: {ratio: 0.2, min_retries_per_second: 0, interval: 60s}
`}
			var stacks []*stack.Stack
			for range c.stacks {
				stacks = append(stacks, start(t, options))
			}
			// All is earned at the first Envoy.
			const successes, failures = 96, 60
			succeed(t, stacks[0].Addr, 8, successes)
			waitFor(t, "the successes to be deposited", func() bool { return firsts(log.events(t, "app")) == successes })
			retried := 0
			for i := range failures {
				s := stacks[i%len(stacks)]
				a := s.Do(stack.Request{Method: "POST", Fault: "408, ok", Body: "pay"})
				switch report := a.Report(); {
				case a.Status == 200:
					wantHits(t, s, a, 2, 1)
					retried++
				case report.Reason != "budget_exhausted":
					t.Errorf("%d, %+v", a.Status, report)
				}
				time.Sleep(20 * time.Millisecond)
			}
			events := log.events(t, "app")
			processes := map[string]int{}
			for _, e := range events {
				if e.Kind == budget.KindGrant {
					processes[e.Process]++
				}
			}
			net := granted(events)[budget.SourceEarned]
			t.Logf("%d retries of %d, granted by %v", retried, firsts(events)/5, processes)
			if net != retried || retried > firsts(events)/5 || retried < (successes+failures)/5*9/10 {
				t.Errorf("%d retries, %d grants; %d first attempts pay for %d", retried, net, firsts(events), firsts(events)/5)
			}
			if len(processes) != 2 {
				t.Errorf("granted by %v, want both processes", processes)
			}
		})
	}
}
