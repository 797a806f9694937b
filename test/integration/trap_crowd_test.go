package integration

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// crowded has a host whose upstream takes any number of requests: on a busy machine the retries, which
// come within 3 s, could exceed Envoy's circuit breakers.
var crowded = stack.NewPatch("a host for a crowd", upstreamLikeH2("crowd"),
	outerHost("crowd", `{timeout: 60s}`),
	stack.Set(stack.Cluster("crowd")+"/circuit_breakers", `{thresholds: [{max_requests: 100000, max_pending_requests: 100000}]}`),
	stack.Set(stack.Route("attempts", "crowd", "crowd")+"/route/timeout", "20s"))

const crowdConfig = `
defaults: {budget: {ratio: 0, min_retries_per_second: 1000}}
`

// 2000 failed answers are held at once, and each is retried exactly once.
func TestTrapCrowd(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Config: crowdConfig, Patches: []stack.Patch{crowded}})
	peak := 0.0
	answers := crowd(t, s, 2000, "503 retry-after=6 body=0, ok delay=300ms", func(n int) {
		waitFor(t, "each is held", func() bool {
			waiting := s.ServiceMetric(0, "verdict_waiting")
			peak = max(peak, waiting)
			return int(waiting+s.ServiceMetric(0, "verdict_wait_seconds")) >= n
		})
	})
	if peak <= 1024 {
		t.Errorf("%v waited at once, not more than the default circuit breaker lets through", peak)
	}
	for id, a := range answers {
		if hits := len(s.Upstream.Hits(id)); a.Status != 200 || hits != 2 {
			t.Errorf("%s: status %d, %d hits, %+v, %v", id, a.Status, hits, a.Report(), s.EnvoyStats("cluster.crowd.upstream_rq"))
		}
	}
	if n := s.ExtProcStat("attempts", "failure_mode_allowed"); n != 0 {
		t.Errorf("%d judges failed open", n)
	}
	t.Logf("%v waited at once", peak)
}

var (
	fewRetries = stack.NewPatch("the cluster attempts has Envoy's circuit breakers", stack.Remove(stack.Cluster("attempts")+"/circuit_breakers"))
	fewJudges  = stack.NewPatch("the cluster verdict has Envoy's circuit breakers", stack.Remove(stack.Cluster("verdict")+"/circuit_breakers"))
)

// With Envoy's circuit breakers a crowd is not retried. That costs retries, and nothing else.
func TestTrapCrowdBite(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		patch   stack.Patch
		n       int
		fault   string
		counter string
	}{
		{fewRetries, 60, "503 retry-after=1 body=0, ok delay=500ms", "cluster.attempts.upstream_rq_retry_overflow"}, // 3 retries
		{fewJudges, 1100, "503 retry-after=4 body=0, ok", "http.attempts.ext_proc.failure_mode_allowed"},            // 1024 requests
	} {
		t.Run(test.patch.Name, func(t *testing.T) {
			t.Parallel()
			s := startTrap(t, stack.Options{Config: crowdConfig, Patches: []stack.Patch{crowded, test.patch}})
			answers := crowd(t, s, test.n, test.fault, func(n int) { s.WaitStat("cluster.crowd.upstream_rq_completed", n) })
			failed := 0
			for id, a := range answers {
				hits := len(s.Upstream.Hits(id))
				if a.Status == 503 && hits == 1 {
					failed++
				} else if a.Status != 200 || hits != 2 {
					t.Errorf("%s: status %d, %d hits, %+v", id, a.Status, hits, a.Report())
				}
			}
			if failed == 0 || s.EnvoyStat(test.counter) < failed {
				t.Errorf("%d not retried, %s %d: the trap does not bite", failed, test.counter, s.EnvoyStat(test.counter))
			}
			t.Logf("%d of %d not retried", failed, test.n)
		})
	}
}

// crowd sends n GETs by HTTP/2, so that a few connections are enough, and returns the answers by id. It
// calls pace after each 100 with their number: no more are on their way at a time.
func crowd(t *testing.T, s *stack.Stack, n int, fault string, pace func(sent int)) map[string]stack.Answer {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		answers = make(map[string]stack.Answer, n)
	)
	for i := range n {
		id := s.NewID()
		running.Go(func() {
			a, err := crowdGet(t.Context(), transport, s.Addr, id, fault)
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[id] = a
		})
		if sent := i + 1; sent%100 == 0 {
			pace(sent)
		}
	}
	running.Wait()
	return answers
}

func crowdGet(ctx context.Context, transport http.RoundTripper, addr, id, fault string) (a stack.Answer, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		return a, err
	}
	r.Host = "crowd.example"
	r.Header.Set("x-test-id", id)
	r.Header.Set("x-fault", fault)
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return a, err
	}
	return stack.Answer{ID: id, Status: resp.StatusCode, Header: resp.Header}, resp.Body.Close()
}
