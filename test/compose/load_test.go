package compose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// report is what the load generator has seen: summary in demo/seen.go.
type report struct {
	Rounds    int
	Outcomes  map[string]map[string]int
	Different map[string]string
	Broken    []string
	Uncertain []uncertain
}

type uncertain struct {
	Case, Scenario, Reason string
	Begin, End             time.Time
}

// load asks the load generator, which is never stopped.
type load struct {
	*project
	url string
}

func newLoad(p *project, t *testing.T) *load {
	t.Helper()
	return &load{p, "http://" + p.addr(t, "load", 9100)}
}

func (l *load) report(t *testing.T) (r report) {
	t.Helper()
	l.getJSON(t, l.url+"/report", &r)
	if len(r.Broken) > 0 {
		t.Fatalf("promises broken:\n%s", strings.Join(r.Broken, "\n"))
	}
	return r
}

func (r report) total() (n int) {
	for _, outcomes := range r.Outcomes {
		for _, count := range outcomes {
			n += count
		}
	}
	return n
}

// allAsExpected waits until every scenario has, from now on, gone as the demo wants it once more.
func (l *load) allAsExpected(t *testing.T) {
	t.Helper()
	var before report
	within(t, 30*time.Second, "two rounds", func() string { // the first requests of each scenario
		if before = l.report(t); before.Rounds < 2 {
			return fmt.Sprint(before.Rounds)
		}
		return ""
	})
	if len(before.Outcomes) < 30 {
		t.Fatalf("only %d scenarios are played: %v", len(before.Outcomes), slices.Sorted(maps.Keys(before.Outcomes)))
	}
	begin := time.Now()
	within(t, 90*time.Second, "each scenario as expected", func() string {
		now := l.report(t)
		var missing []string
		for scenario, outcomes := range before.Outcomes {
			if now.Outcomes[scenario]["as_expected"] <= outcomes["as_expected"] {
				missing = append(missing, scenario+": "+now.Different[scenario])
			}
		}
		slices.Sort(missing)
		return strings.Join(missing, "\n")
	})
	t.Logf("%d scenarios as expected within %.0f s", len(before.Outcomes), time.Since(begin).Seconds())
}

// goesOn watches for a while that requests are answered.
func (l *load) goesOn(t *testing.T, d time.Duration) {
	t.Helper()
	before := l.report(t).total()
	time.Sleep(d)
	within(t, 30*time.Second, "requests are answered", func() string {
		if n := l.report(t).total() - before; n < 20 {
			return fmt.Sprintf("%d in %v", n, d)
		}
		return ""
	})
}

// healthyAnswersPass waits for ten answers of an upstream that is well.
func (l *load) healthyAnswersPass(t *testing.T) {
	t.Helper()
	const scenario = "steady: GET"
	before := l.report(t).Outcomes[scenario]["as_expected"]
	within(t, 30*time.Second, "healthy answers pass", func() string {
		if n := l.report(t).Outcomes[scenario]["as_expected"] - before; n < 10 {
			return fmt.Sprint(n)
		}
		return ""
	})
}

// connected is verdict_budget_redis_connected of each replica.
func (l *load) connected(t *testing.T, want string) func() string {
	return func() string {
		for _, service := range []string{"verdict-1", "verdict-2"} {
			text, err := l.get("http://" + l.addr(t, service, 9003) + "/metrics")
			if err != nil {
				return err.Error()
			}
			if !strings.Contains(text, "\nverdict_budget_redis_connected "+want+"\n") {
				return service + ": not " + want
			}
		}
		return ""
	}
}

// withoutStore: both replicas know that they are alone, and retries go on from what they have earned.
func (l *load) withoutStore(t *testing.T) {
	t.Helper()
	within(t, 30*time.Second, "both replicas are cut off", l.connected(t, "0"))
	before := l.report(t)
	l.goesOn(t, hold)
	within(t, 60*time.Second, "a retry without the store", func() string {
		now := l.report(t)
		for _, scenario := range []string{"GET, connection reset", "POST declared safe", "PUT, connection reset", "POST with a key it honours"} {
			if now.Outcomes[scenario]["as_expected"] > before.Outcomes[scenario]["as_expected"] {
				return ""
			}
		}
		return "none"
	})
}

func (l *load) storeIsBack(t *testing.T) {
	t.Helper()
	within(t, 60*time.Second, "both replicas are connected", l.connected(t, "1"))
	l.allAsExpected(t)
}

// testPromises: nothing was broken all the while, and what was observed is nearly all.
func (l *load) testPromises(t *testing.T) {
	r := l.report(t)
	totals := map[string]int{}
	for _, outcomes := range r.Outcomes {
		for outcome, n := range outcomes {
			totals[outcome] += n
		}
	}
	t.Logf("%d rounds, outcomes %v", r.Rounds, totals)
	if totals["broken"] > 0 {
		t.Errorf("%d promises broken", totals["broken"])
	}
	if 2*totals["unobserved"] > totals["as_expected"] {
		t.Error("too much was not observed")
	}
}
