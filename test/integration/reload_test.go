package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
	"github.com/verdictproxy/verdict/test/stack"
)

// reload puts a configuration file in the place of the one before and waits until the first replica has
// done with it what it should: applied, refused or unchanged.
func reload(t *testing.T, s *stack.Stack, yaml, result string) {
	t.Helper()
	count := func() float64 { return s.ServiceMetric(0, "verdict_config_reloads_total", "result="+result) }
	before := count()
	s.WriteConfig(yaml)
	s.HangUpService(0)
	waitFor(t, "the file to be "+result, func() bool { return count() > before })
}

// While the configuration is replaced again and again no request fails, no stream is lost, and waits go on
// and are obeyed.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	config := func(n int) string {
		return fmt.Sprintf(`
defaults:
  backoff: {base: 0.001s, max: 0.00%ds}
  budget: {ratio: 1, min_retries_per_second: %d}
upstreams:
- clusters: [app, other-%d]
  operations: [{pattern: "PUT /%d", idempotency: non_idempotent}]
`, 2+n%7, 1000+n, n, n)
	}
	s := start(t, stack.Options{Config: config(0), Patches: []stack.Patch{attemptTimeout("20s"), patientEnvoy}})

	// An answer that arrives, and waits of 20 requests, outlive every reload.
	download, err := http.Get(s.URL() + "/?fault=trickle:200+body=1000+piece=100+every=400ms")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = download.Body.Close() }()
	const waits = 20
	waited := make([]stack.Answer, waits)
	var waiting sync.WaitGroup
	for i := range waits {
		waiting.Go(func() { waited[i] = s.Do(posting("429 retry-after=5 body=20, ok")) })
	}
	waitFor(t, "all to wait", func() bool { return s.ServiceMetric(0, "verdict_waiting") == waits })

	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var requests atomic.Int64
	for i := range 6 {
		r := []stack.Request{getting("503, ok"), posting("408, 408, ok"), getting("ok")}[i%3]
		hits := []int{2, 3, 1}[i%3]
		load.Go(func() {
			for ctx.Err() == nil {
				a := s.Do(r)
				if n := len(s.Upstream.Hits(a.ID)); a.Status != 200 || n != hits {
					t.Errorf("%s: status %d, %d hits, %+v", r.Fault, a.Status, n, a.Report())
				}
				requests.Add(1)
			}
		})
	}
	reloads := 0
	for end := time.Now().Add(3 * time.Second); reloads < 10 || time.Now().Before(end); reloads++ {
		if reloads%3 == 2 {
			reload(t, s, "upstreams: {}", "refused")
		}
		reload(t, s, config(reloads+1), "applied")
		time.Sleep(100 * time.Millisecond)
	}
	stillWaiting := s.ServiceMetric(0, "verdict_waiting")
	stop()
	load.Wait()
	waiting.Wait()
	body, err := io.ReadAll(download.Body)
	if err != nil || len(body) != 1000 {
		t.Errorf("the download ends after %d bytes: %v", len(body), err)
	}
	for _, a := range waited {
		wantReport(t, a, stack.Report{})
		wantHits(t, s, a, 2, 1)
	}
	t.Logf("%d requests during %d reloads, with %v waits at their end", requests.Load(), reloads, stillWaiting)
	for _, listener := range []string{"attempts", "outer"} {
		for _, counter := range []string{"failure_mode_allowed", "streams_failed"} {
			if n := s.ExtProcStat(listener, counter); n != 0 {
				t.Errorf("%s: %s is %d", listener, counter, n)
			}
		}
	}
	if n := s.ServiceMetric(0, "verdict_waits_abandoned_total"); n != 0 {
		t.Errorf("%v waits were abandoned", n)
	}
}

// However often the budget's settings are replaced, nothing is refilled.
func TestReloadRefillsNothing(t *testing.T) {
	t.Parallel()
	backends := map[string]string{
		"memory": "",
		"redis":  "budget: {backend: redis, address: \"" + redistest.Start(t, redistest.Binary(t)).Address + "\"}\n",
	}
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newEventLog(t)
			config := func(n int) string {
				// 20 of the reserve in 10 s, or 15; by the defaults, or by an entry.
				budget := fmt.Sprintf("{backoff: {base: 0.001s, max: 0.002s}, budget: {ratio: %v, min_retries_per_second: %v, interval: 10s}}", []float64{0.2, 0.1}[n%3%2], []float64{2, 1.5}[n%2])
				if n%4 < 2 {
					return backend + "defaults: " + budget
				}
				return backend + "upstreams: [{clusters: [app], policy: " + budget + "}]"
			}
			s := start(t, stack.Options{Config: config(0), ExtprocArgs: log.args()})
			// A Redis that is new grants nothing of the reserve for an interval.
			succeed(t, s.Addr, 4, 100)
			waitFor(t, "the successes to be deposited", func() bool { return firsts(log.events(t, "app")) == 100 })
			for n := range 12 {
				for range 8 {
					s.Do(posting("408, ok"))
				}
				reload(t, s, config(n+1), "applied")
			}
			if len(granted(log.events(t, "app"))) == 0 {
				t.Error("nothing was granted")
			}
			log.obeys(t, 0.2, 2, 10*time.Second)
		})
	}
}

// A retry that was granted by looser declarations proves nothing: alone, the second attempts of these
// requests could be followed by a third, and one of them would be executed twice.
func TestReloadLooserBefore(t *testing.T) {
	t.Parallel()
	const slow, fast = "defaults: {backoff: {base: 6s, max: 6s, jitter: decorrelated}}", "defaults: {backoff: {base: 0.001s, max: 0.002s}}"
	s := start(t, stack.Options{Config: slow, Patches: []stack.Patch{stack.LabClusters()}})
	if err := s.Upstream.Late().Open(); err != nil {
		t.Fatal(err)
	}
	const late = "late.example"
	refusedThen := stack.Report{Verdict: "ambiguous", Reason: "earlier_attempt", Evidence: "NOT_SENT", Execution: "UNKNOWN", Attempts: "2"}
	cases := []struct {
		request stack.Request
		want    stack.Report
		effects int
		answer  stack.Answer
	}{
		{stack.Request{Host: late, Method: "PUT", Target: "/pay", Fault: "reset, ok", Body: "pay"}, refusedThen, 1, stack.Answer{}},
		{stack.Request{Host: "h2.example", Method: "POST", Fault: "429 executed body=0, refused, ok", Body: "pay"}, refusedThen, 1, stack.Answer{}},
		// Its class was the same all along, and its upstream's word counts as it did.
		{stack.Request{Host: late, Method: "POST", Fault: "429 body=0 close, ok", Body: "pay"},
			stack.Report{Verdict: "denied", Reason: "max_attempts", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "3"}, 0, stack.Answer{}},
	}
	var all sync.WaitGroup
	for i := range cases {
		all.Go(func() { cases[i].answer = s.Do(cases[i].request) })
	}
	waitFor(t, "all to wait", func() bool { return s.ServiceMetric(0, "verdict_waiting") == float64(len(cases)) })
	if err := s.Upstream.Late().Shut(); err != nil {
		t.Fatal(err)
	}
	reload(t, s, fast+`
upstreams:
- {clusters: [late], operations: [{pattern: "PUT /pay", idempotency: non_idempotent}]}
- {clusters: [app-h2], policy: {distrusted_statuses: [429]}}
`, "applied")
	if n := s.ServiceMetric(0, "verdict_waiting"); n != float64(len(cases)) {
		t.Fatalf("%v wait: the reload came too late, or ended waits", n)
	}
	all.Wait()
	for _, c := range cases {
		t.Run(c.request.Method+" "+c.request.Fault, func(t *testing.T) {
			wantReport(t, c.answer, c.want)
			if got := s.Upstream.Effects(c.answer.ID); got != c.effects {
				t.Errorf("%d side effects, want %d", got, c.effects)
			}
		})
	}
}

// Shadow mode comes and goes with the file, without a signal; a file that is no good, or gone, changes
// nothing.
func TestReloadShadow(t *testing.T) {
	t.Parallel()
	const fast = "backoff: {base: 0.001s, max: 0.002s}"
	const lit, dark = "defaults: {" + fast + "}", "defaults: {" + fast + "}\nupstreams: [{clusters: [app], policy: {shadow: true}}]"
	s := start(t, stack.Options{Config: lit})
	acts := func(acts bool) {
		t.Helper()
		a := s.Do(getting("503, ok"))
		status, hits := 503, 1
		if acts {
			status, hits = 200, 2
		}
		if n := len(s.Upstream.Hits(a.ID)); a.Status != status || n != hits {
			t.Errorf("status %d, %d hits, want %d and %d", a.Status, n, status, hits)
		}
		wantReport(t, a, stack.Report{})
	}
	result := func(result string, n float64) {
		t.Helper()
		waitFor(t, "the file to be "+result, func() bool {
			return s.ServiceMetric(0, "verdict_config_reloads_total", "result="+result) == n
		})
	}
	acts(true)
	s.WriteConfig(dark)
	result("applied", 1)
	acts(false)
	s.WriteConfig("defaults: {shadow: perhaps}")
	result("refused", 1)
	acts(false)
	s.RemoveConfig()
	result("refused", 2)
	acts(false)
	if n := s.ServiceMetric(0, "verdict_config_last_reload_successful"); n != 0 {
		t.Errorf("the last reload counts as successful: %v", n)
	}
	s.WriteConfig(lit)
	result("applied", 2)
	acts(true)
}
