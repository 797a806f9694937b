package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/budgettest"
	"github.com/verdictproxy/verdict/test/stack"
)

// eventLog is the file of a budget's event log.
type eventLog string

func newEventLog(t *testing.T) eventLog { return eventLog(filepath.Join(t.TempDir(), "events.ndjson")) }

func (l eventLog) args() []string { return []string{"--event-log", string(l)} }

// obeys checks the payment law over the whole log.
func (l eventLog) obeys(t *testing.T, ratio, perSecond float64, interval time.Duration) {
	t.Helper()
	settings, err := budget.NewSettings(ratio, perSecond, interval)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(string(l))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if err := budgettest.Check(file, func(string) budget.Settings { return settings }); err != nil {
		t.Errorf("the payment law: %v", err)
	}
}

// events are those of an account, in order.
func (l eventLog) events(t *testing.T, account string) []budget.Event {
	t.Helper()
	text, err := os.ReadFile(string(l))
	if err != nil {
		t.Fatal(err)
	}
	var events []budget.Event
	for line := range bytes.Lines(text) {
		var e budget.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Account == account {
			events = append(events, e)
		}
	}
	return events
}

// granted is the number of grants that were not returned, by what paid for them.
func granted(events []budget.Event) map[budget.Source]int {
	net := map[budget.Source]int{}
	for _, e := range events {
		switch e.Kind {
		case budget.KindGrant:
			net[e.Source]++
		case budget.KindReturn:
			net[e.Source]--
		}
	}
	return net
}

func firsts(events []budget.Event) int {
	n := 0
	for _, e := range events {
		n += e.Firsts
	}
	return n
}

// patientEnvoy gives the judge time: where it answers too late Envoy fails open, and on a busy machine, by
// a service with the race detector, 1000 answers at once take more than a second.
var patientEnvoy = stack.NewPatch("time for a slow judge",
	stack.Set(stack.DelegatedConfig("attempts", "judge")+"/message_timeout", "10s"),
	stack.Set(stack.DelegatedConfig("outer", "finalizer")+"/message_timeout", "10s"))

// 1000 requests fail at once, nothing has been earned, and the reserve pays for 200 retries in 10 s.
func TestBudgetFloodOfFailures(t *testing.T) {
	t.Parallel()
	log := newEventLog(t)
	s := start(t, stack.Options{ExtprocArgs: log.args(), Config: `
defaults:
  backoff: {base: 0.001s, max: 0.002s}
  budget: {ratio: 0, min_retries_per_second: 20, interval: 10s}
`, Patches: []stack.Patch{attemptTimeout("10s"), patientEnvoy}})
	const requests = 1000
	ids := make([]string, requests)
	answers := make([]stack.Answer, requests)
	var all sync.WaitGroup
	for i := range requests {
		ids[i] = s.NewID()
		all.Go(func() {
			var err error
			// All of them are there before the first fails.
			if answers[i], err = s.Try(context.Background(), stack.Request{ID: ids[i], Fault: "503 delay=2s, 503"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	retries := 0
	for i, id := range ids {
		hits := len(s.Upstream.Hits(id))
		retries += hits - 1
		report := answers[i].Report()
		if report.Verdict != "denied" || report.Reason != "budget_exhausted" && report.Reason != "max_attempts" {
			t.Errorf("request %s: %+v", id, report)
		}
	}
	events := log.events(t, "app")
	net := granted(events)
	if net[budget.SourceReserve] != 200 || len(net) != 1 {
		t.Errorf("granted %v, want 200 from the reserve", net)
	}
	if retries != 200 {
		t.Errorf("%d retries have reached the upstream, want 200", retries)
	}
	log.obeys(t, 0, 20, 10*time.Second)
	waitFor(t, "all first attempts to be deposited", func() bool { return firsts(log.events(t, "app")) == requests })
}

// An upstream that was idle has earned nothing: its first failures are retried from the reserve. Once that
// is spent nothing is retried, until successes have paid.
func TestBudgetReserveThenSuccesses(t *testing.T) {
	t.Parallel()
	log := newEventLog(t)
	s := start(t, stack.Options{ExtprocArgs: log.args(), Config: `
defaults:
  backoff: {base: 0.001s, max: 0.002s}
  budget: {ratio: 0.2, min_retries_per_second: 0.05, interval: 60s}
`})
	fails := stack.Request{Method: "POST", Fault: "408, ok", Body: "pay"}
	denied := stack.Report{Verdict: "denied", Reason: "budget_exhausted", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"}
	for range 3 { // 0.05 a second in 60 s
		a := s.Do(fails)
		wantReport(t, a, stack.Report{})
		wantHits(t, s, a, 2, 1)
	}
	// The three first attempts have earned 0.6 of a retry.
	a := s.Do(fails)
	wantReport(t, a, denied)
	wantHits(t, s, a, 1, 0)

	const successes = 10_000
	succeed(t, s.Addr, 8, successes)
	waitFor(t, "the successes to be deposited", func() bool {
		return s.ServiceMetric(0, "verdict_first_attempts_total", "upstream=app") == successes+4
	})
	for range 20 {
		a := s.Do(fails)
		wantReport(t, a, stack.Report{})
		wantHits(t, s, a, 2, 1)
	}
	net := granted(log.events(t, "app"))
	if net[budget.SourceReserve] != 3 || net[budget.SourceEarned] != 20 {
		t.Errorf("granted %v, want 3 from the reserve and 20 earned", net)
	}
	log.obeys(t, 0.2, 0.05, 60*time.Second)
}

// Every first attempt that had an upstream host is deposited once, however it ended, and nothing else is.
func TestBudgetDeposits(t *testing.T) {
	t.Parallel()
	log := newEventLog(t)
	s := start(t, stack.Options{ExtprocArgs: log.args(), Config: `
defaults:
  backoff: {base: 0.001s, max: 0.002s}
  budget: {min_retries_per_second: 1000}
`, Patches: []stack.Patch{stack.LabClusters(), stack.NewPatch("another cluster", upstreamLike("other", "", ""))}})
	for _, r := range []struct {
		host, fault string
		times       int
	}{
		{"other", "ok", 7},
		{"other", "404", 2},
		{"other", "503", 3},   // three attempts each
		{"other", "reset", 2}, // three attempts each
		{"other", "503, ok", 2},
		{"other", "half-body", 1},
		{"closed", "", 4}, // refused connections had a host
		{"connect-timeout", "", 1},
		{"tls-plain", "", 1},
		{"overflow", "", 2}, // the breaker refused before a host was given
		{"no-hosts", "", 5},
		{"dns", "", 2},
		{"no-cluster", "", 2},
		{"no-route", "", 2},
		{"direct", "", 2},
	} {
		for range r.times {
			_, _ = s.Try(context.Background(), stack.Request{Host: r.host + ".example", Fault: r.fault})
		}
	}
	want := map[string]int{"other": 17, "closed": 4, "connect-timeout": 1, "tls-plain": 1, "overflow": 0,
		"no-hosts": 0, "dns": 0, "no-cluster": 0, "no-route": 0, "direct": 0, "": 0, "app": 0}
	// The log of attempts comes in the order of their ends: this request is the last.
	s.Do(stack.Request{})
	waitFor(t, "the last request to be deposited", func() bool { return firsts(log.events(t, "app")) == 1 })
	want["app"] = 1
	for account, n := range want {
		if got := firsts(log.events(t, account)); got != n {
			t.Errorf("%q: %d first attempts, want %d", account, got, n)
		}
		if account != "" {
			if got := s.ServiceMetric(0, "verdict_first_attempts_total", "upstream="+account); int(got) != n {
				t.Errorf("%q: the metric says %v first attempts, want %d", account, got, n)
			}
		}
	}
	log.obeys(t, 0.2, 1000, 10*time.Second)
}

// attemptTimeout gives the attempts of app more time; the request's deadline is 10 s longer.
func attemptTimeout(timeout string) stack.Patch {
	return stack.NewPatch("attempts with more time",
		stack.Set(stack.Route("attempts", "app", "app")+"/route/timeout", timeout),
		stack.Set(stack.Route("outer", "all", "0")+"/route/timeout", "30s"))
}

// succeed sends n requests that succeed, on as many connections as it is told.
func succeed(t *testing.T, addr string, connections, n int) {
	t.Helper()
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			r := bufio.NewReader(conn)
			for range n / connections {
				if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nhost: app.example\r\n\r\n"); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					t.Errorf("status %d: %v", resp.StatusCode, err)
					return
				}
			}
		})
	}
	all.Wait()
}
