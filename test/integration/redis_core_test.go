package integration

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
	"github.com/verdictproxy/verdict/test/stack"
)

// redisTopologies share one budget.
var redisTopologies = map[string]struct{ stacks, replicas int }{
	"two replicas behind one Envoy": {1, 2},
	"two Envoys":                    {2, 1},
}

// redisCoreConfig: app and the like live on the reserve alone, which no process has without Redis; own
// earns, and steady is under traffic throughout.
const redisCoreConfig = `
defaults:
  backoff: {base: 0.001s, max: 0.002s}
  budget: {ratio: 0, min_retries_per_second: 100, interval: 3s}
upstreams:
- clusters: [app, app-h2, closed]
  operations: [{pattern: POST /keyed, idempotency: idempotent_with_key}]
- clusters: [empty]
  policy: {budget: {ratio: 0, min_retries_per_second: 0}}
- clusters: [own]
  policy: {budget: {ratio: 0.5, min_retries_per_second: 1, interval: 60s}}
- clusters: [steady]
  policy: {budget: {ratio: 0.5, min_retries_per_second: 1, interval: 3s}}
`

type redisCore struct {
	server   *redistest.Server
	log      eventLog
	stacks   []*stack.Stack
	replicas int // of each stack
}

// The core of the evidence table holds on a shared budget too, and Redis may go and come back: traffic
// flows, each process pays for retries with its own first attempts alone, and afterwards all is as before.
func TestRedisCore(t *testing.T) {
	t.Parallel()
	for name, topology := range redisTopologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &redisCore{server: redistest.Start(t, redistest.Binary(t)), log: newEventLog(t), replicas: topology.replicas}
			options := stack.Options{Replicas: topology.replicas, ExtprocArgs: c.log.args(),
				Config: `budget: {backend: redis, address: "` + c.server.Address + `"}` + redisCoreConfig,
				Patches: []stack.Patch{stack.LabClusters(), stack.NewPatch("accounts of their own",
					upstreamLike("empty", "", ""), upstreamLike("own", "", ""), upstreamLike("steady", "", ""))}}
			for range topology.stacks {
				c.stacks = append(c.stacks, start(t, options))
			}
			c.funded(t)
			t.Run("table", c.table)
			t.Run("empty budget", c.empty)
			t.Run("Redis killed", c.killed)
		})
	}
}

// funded waits until every process has paid from the reserve: it counts as spent while the epoch, which
// begins with the first call that Redis gets for any of the accounts that share a hash slot, is younger
// than an interval.
func (c *redisCore) funded(t *testing.T) {
	t.Helper()
	before := len(c.log.events(t, "app"))
	for _, host := range []string{"h2", "closed"} {
		c.stacks[0].Do(stack.Request{Host: host + ".example", Fault: "503"})
	}
	waitFor(t, "retries from the reserve, by both processes", func() bool {
		for _, s := range c.stacks {
			s.Do(posting("408, ok"))
		}
		return len(granters(c.log.events(t, "app")[before:])) == 2
	})
}

// granters counts the grants of each process.
func granters(events []budget.Event) map[string]int {
	processes := map[string]int{}
	for _, e := range events {
		if e.Kind == budget.KindGrant {
			processes[e.Process]++
		}
	}
	return processes
}

// redisRows are a request each, and evidenceTable's words for what becomes of it.
var redisRows = []struct {
	request stack.Request
	want    string
}{
	{posting("reset"), "503 ambiguous(sent_no_response) SENT_NO_RESPONSE UNKNOWN attempts=1 hits=1 effects=1 uncertain problem"},
	{getting("reset, ok"), "200 unlabelled hits=2 effects=2"},
	{stack.Request{Method: "PUT", Fault: "reset, ok", Body: "pay"}, "200 unlabelled hits=2 effects=2"},
	{stack.Request{Method: "PUT", Fault: "reset", Body: "pay"}, "503 denied(max_attempts) SENT_NO_RESPONSE UNKNOWN attempts=3 hits=3 effects=3 uncertain problem"},
	{stack.Request{Method: "POST", Host: "closed.example", Body: "pay"}, "503 denied(max_attempts) NOT_SENT NOT_EXECUTED attempts=3 hits=0 effects=0"},
	{posting("503, ok"), "503 ambiguous(gateway_status) RESPONSE_RECEIVED UNKNOWN attempts=1 hits=1 effects=1 uncertain"},
	{posting("500, ok"), "500 denied(status_not_retryable) RESPONSE_RECEIVED UNKNOWN attempts=1 hits=1 effects=1"},
	{posting("429 retry-after=1, ok"), "200 unlabelled hits=2 effects=1"},
	{stack.Request{Method: "POST", Host: "h2.example", Fault: "refused, ok", Body: "pay"}, "200 unlabelled hits=2 effects=1"},
	{posting("429, reset, ok"), "503 ambiguous(sent_no_response) SENT_NO_RESPONSE UNKNOWN attempts=2 hits=2 effects=1 uncertain problem"},
	{keyed("reset, ok"), "200 unlabelled hits=2 effects=2"},
	{toTarget("/keyed", posting("reset, ok")), "503 ambiguous(sent_no_response) SENT_NO_RESPONSE UNKNOWN attempts=1 hits=1 effects=1 uncertain problem"},
}

func keyed(fault string) stack.Request {
	r := toTarget("/keyed", posting(fault))
	r.Header = []string{"idempotency-key: k1"}
	return r
}

// table plays each row once by way of each of two processes or Envoys.
func (c *redisCore) table(t *testing.T) {
	before := len(c.log.events(t, "app"))
	again := 0
	for i := range 2 {
		s := c.stacks[i%len(c.stacks)]
		table := &evidenceTable{s: s}
		for _, row := range redisRows {
			var got string
			// A lease that comes later than a decision waits for it is a refusal, and rightly so: such
			// an answer is as safe as any, but says nothing of the row.
			waitFor(t, row.request.Method+" "+row.request.Fault+", paid for", func() bool {
				got = table.row(t, row.request, s.Do(row.request))
				refused := strings.Contains(got, "denied(budget_exhausted)")
				if refused {
					again++
					time.Sleep(2 * budget.EmptyFor)
				}
				return !refused
			})
			if got != row.want {
				t.Errorf("%s %s%s %s\n got %s\nwant %s", row.request.Method, row.request.Host, row.request.Target, row.request.Fault, got, row.want)
			}
		}
	}
	t.Logf("granted by %v; %d answers for want of a lease", granters(c.log.events(t, "app")[before:]), again)
}

// A refusal for want of a token changes the verdict's word, not what is said of the request. Rule 2 sees
// a refusal of the same process for budget.EmptyFor; without one, rule 8 has the word.
func (c *redisCore) empty(t *testing.T) {
	for _, s := range c.stacks {
		table := &evidenceTable{s: s}
		for _, row := range []struct {
			request         stack.Request
			want, otherwise string
		}{
			{getting("reset, ok"), "503 denied(budget_exhausted) SENT_NO_RESPONSE UNKNOWN attempts=1 hits=1 effects=1", ""},
			{posting("reset, ok"), "503 denied(budget_exhausted) SENT_NO_RESPONSE UNKNOWN attempts=1 hits=1 effects=1 uncertain problem", "ambiguous(sent_no_response)"},
			{posting("503, ok"), "503 denied(budget_exhausted) RESPONSE_RECEIVED UNKNOWN attempts=1 hits=1 effects=1 uncertain", "ambiguous(gateway_status)"},
			{posting("429, ok"), "429 denied(budget_exhausted) RESPONSE_RECEIVED NOT_EXECUTED attempts=1 hits=1 effects=0", ""},
		} {
			row.request.Host = "empty.example"
			waitFor(t, row.request.Method+" "+row.request.Fault+", refused for want of a token", func() bool {
				if row.otherwise != "" {
					s.Do(stack.Request{Host: row.request.Host, Fault: "503"})
				}
				got := table.row(t, row.request, s.Do(row.request))
				if got == row.want {
					return true
				}
				if row.otherwise == "" || got != strings.Replace(row.want, "denied(budget_exhausted)", row.otherwise, 1) {
					t.Fatalf("%s %s\n got %s\nwant %s", row.request.Method, row.request.Fault, got, row.want)
				}
				return false
			})
		}
	}
}

func (c *redisCore) killed(t *testing.T) {
	before := granters(c.log.events(t, "app"))
	var traffic sync.WaitGroup
	stop := make(chan struct{})
	leave := sync.OnceFunc(func() { close(stop); traffic.Wait() })
	defer leave()
	for _, s := range c.stacks {
		traffic.Go(func() { steadyTraffic(t, s, stop) })
	}
	waitFor(t, "retries of the traffic", func() bool { return len(granters(c.log.events(t, "steady"))) > 0 })

	c.server.Kill()
	c.waitConnected(t, 0)
	time.Sleep(300 * time.Millisecond) // a lease of the reserve lives three fiftieths of the interval
	mark := len(c.log.events(t, "app"))
	for i := range 8 {
		s := c.stacks[i%len(c.stacks)]
		a := s.Do(posting("408, ok"))
		wantReport(t, a, stack.Report{Verdict: "denied", Reason: "budget_exhausted", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"})
		wantHits(t, s, a, 1, 0)
	}
	if got := granters(c.log.events(t, "app")[mark:]); len(got) > 0 {
		t.Errorf("without Redis the reserve has paid: %v", got)
	}
	// Envoy tells of first attempts in batches, and all of them to one of its replicas: only that one can
	// pay, and which one judges is not for the test to choose.
	retried, sent := 0, 0
	waitFor(t, "retries paid without Redis", func() bool {
		for _, s := range c.stacks {
			retried += retriedOnceAtMost(t, s, "own")
			sent++
		}
		return retried >= 4
	})
	events := c.log.events(t, "own")
	if got := granted(events); len(got) != 1 || got[budget.SourceEarned] != retried {
		t.Errorf("%d retries, granted %v", retried, got)
	}
	paysByItself(t, events)
	t.Logf("%d retries of %d without Redis", retried, sent)

	c.server.Restart()
	c.waitConnected(t, 1)
	c.funded(t)
	for process := range granters(c.log.events(t, "app")) {
		if before[process] == 0 {
			t.Errorf("process %s is new: among %v", process, before)
		}
	}
	mark = len(c.log.events(t, "steady"))
	waitFor(t, "retries of the traffic, after Redis", func() bool { return len(granters(c.log.events(t, "steady")[mark:])) > 0 })
	leave()
	t.Run("table again", c.table)
}

// waitConnected waits until every process says so: 1 for connected, 0 for cut off.
func (c *redisCore) waitConnected(t *testing.T, want float64) {
	t.Helper()
	waitFor(t, "all processes to notice", func() bool {
		for _, s := range c.stacks {
			for i := range c.replicas {
				if s.ServiceMetric(i, "verdict_budget_redis_connected") != want {
					// Whoever has nothing to flush does not notice.
					for _, s := range c.stacks {
						retriedOnceAtMost(t, s, "steady")
					}
					return false
				}
			}
		}
		return true
	})
}

// steadyTraffic is the traffic whose users must see nothing of the outage but fewer retries.
func steadyTraffic(t *testing.T, s *stack.Stack, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(10 * time.Millisecond):
		}
		retriedOnceAtMost(t, s, "steady")
		fine := s.Do(stack.Request{Host: "steady.example"})
		if fine.Status != 200 {
			t.Errorf("GET ok: %d %+v", fine.Status, fine.Report())
		}
		lost := s.Do(stack.Request{Method: "POST", Host: "steady.example", Fault: "reset, ok", Body: "pay"})
		if r := lost.Report(); lost.Status != 503 || r.AmbiguityID == "" || r.Execution != "UNKNOWN" {
			t.Errorf("POST reset: %d %+v", lost.Status, r)
		}
		wantHits(t, s, lost, 1, 1)
	}
}

// retriedOnceAtMost sends a POST whose first attempt is refused, and tells whether it was retried, 0 or 1.
func retriedOnceAtMost(t *testing.T, s *stack.Stack, host string) int {
	t.Helper()
	a := s.Do(stack.Request{Method: "POST", Host: host + ".example", Fault: "408, ok", Body: "pay"})
	if a.Status == 200 {
		wantHits(t, s, a, 2, 1)
		return 1
	}
	wantReport(t, a, stack.Report{Verdict: "denied", Reason: "budget_exhausted", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"})
	wantHits(t, s, a, 1, 0)
	return 0
}

// paysByItself checks that each process has granted only what its own deposits had paid for until then.
func paysByItself(t *testing.T, events []budget.Event) {
	t.Helper()
	left := map[string]int64{}
	for _, e := range events {
		switch e.Kind {
		case budget.KindDeposit, budget.KindReturn:
			left[e.Process] += e.Milli
		case budget.KindGrant:
			if left[e.Process] -= e.Milli; left[e.Process] < 0 {
				t.Errorf("process %s has granted more than it earned: %v", e.Process, maps.Clone(left))
			}
		}
	}
}
