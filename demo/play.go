package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// result is what happened, as seen from three sides: the client, the upstream, and Verdict's log.
type result struct {
	scenario
	answer    stack.Answer
	hits      int
	effects   int
	decisions []decided
	err       error
}

// decided is a line of Verdict's log.
type decided struct {
	Path     string
	Verdict  string
	Reason   string
	Evidence string
	Wait     time.Duration
	Attempt  int
}

// parallel scenarios at once: most of their time is waiting.
const parallel = 8

// sharedConnection: requests to the HTTP/2 upstream share a connection, and some scenarios end it, so
// these are played one after the other.
var sharedConnection sync.Mutex

func play(t stack.TB, s *stack.Stack, token tokenFile) {
	begin := time.Now()
	results := playAll(s, slices.Concat(scenarios, withCredential(token.renew)))
	s.KillService(0)
	results = append(results, playAll(s, withoutVerdict)...)

	log := readLog(s.ServiceLog(0))
	wrong := 0
	for i := range results {
		results[i].decisions = log[results[i].answer.ID]
		if len(results[i].differences()) > 0 {
			wrong++
		}
	}
	printTable(os.Stdout, results)
	for _, r := range results {
		for _, d := range r.differences() {
			t.Errorf("%s: %s", r.name, d)
		}
	}
	fmt.Printf("\n%d scenarios, %d as expected, %d not; %.1f s\n", len(results), len(results)-wrong, wrong, time.Since(begin).Seconds())
}

func playAll(s *stack.Stack, all []scenario) []result {
	results := make([]result, len(all))
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for i, sc := range all {
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = playOne(s, sc)
		})
	}
	running.Wait()
	return results
}

func playOne(s *stack.Stack, sc scenario) result {
	r := result{scenario: sc}
	request := sc.request
	request.ID = s.NewID()
	request.Target += "?case=" + request.ID // by which Verdict's log is read
	if request.Host == "h2.example" {
		sharedConnection.Lock()
		defer sharedConnection.Unlock()
	}
	beside := make(chan error, 1)
	if sc.during == nil {
		beside <- nil
	} else {
		go func() { beside <- sc.during(s.Upstream.Late().Open) }()
	}
	r.answer = s.Do(request)
	r.err = <-beside
	r.hits, r.effects = len(s.Upstream.Hits(request.ID)), s.Upstream.Effects(request.ID)
	return r
}

// readLog sorts Verdict's decisions by the case in their path.
func readLog(text string) map[string][]decided {
	cases := map[string][]decided{}
	for line := range strings.Lines(text) {
		var d decided
		if json.Unmarshal([]byte(line), &d) != nil || d.Verdict == "" {
			continue
		}
		if _, id, ok := strings.Cut(d.Path, "?case="); ok {
			cases[id] = append(cases[id], d)
		}
	}
	return cases
}

func (r result) waited() time.Duration {
	var total time.Duration
	for _, d := range r.decisions {
		total += d.Wait
	}
	return total
}

// column joins one word of each decision; where Verdict was not asked, what Envoy's own report says.
func (r result) column(decided func(decided) string, report string) string {
	if len(r.decisions) == 0 {
		return report
	}
	var words []string
	for _, d := range r.decisions {
		words = append(words, decided(d))
	}
	return strings.Join(words, " ")
}

func (r result) evidence() string {
	return r.column(func(d decided) string { return d.Evidence }, r.answer.Report().Evidence)
}

func (r result) verdicts() string {
	return r.column(func(d decided) string { return d.Verdict }, r.answer.Report().Verdict)
}

// attempts is how many attempts were made, also those that never reached the upstream.
func (r result) attempts() int {
	n := 1
	for _, d := range r.decisions {
		n = max(n, d.Attempt)
		if d.Verdict == "retry" {
			n = max(n, d.Attempt+1)
		}
	}
	return n
}

// differences compares what happened with what was wanted.
func (r result) differences() []string {
	var all []string
	check := func(what string, got, want any) {
		if got != want {
			all = append(all, fmt.Sprintf("%s: got %v, want %v", what, got, want))
		}
	}
	if r.err != nil {
		all = append(all, r.err.Error())
	}
	w, report := r.want, r.answer.Report()
	check("status", r.answer.Status, w.status)
	check("evidence", r.evidence(), w.evidence)
	check("verdicts", r.verdicts(), w.verdicts)
	check("reason", report.Reason, w.reason)
	check("attempts", r.attempts(), w.attempts)
	check("upstream hits", r.hits, w.hits)
	check("side effects", r.effects, w.effects)
	check("reported as uncertain", report.AmbiguityID != "", w.uncertain)
	check("problem body", r.problem(), w.problem)
	check("internal headers at the client", len(r.answer.HeadersWith("x-verdict-")), 0)
	if r.waited() < w.waited || r.answer.Elapsed < w.waited {
		all = append(all, fmt.Sprintf("waited %v in %v, want at least %v", r.waited(), r.answer.Elapsed, w.waited))
	}
	return all
}

func (r result) problem() bool {
	return r.answer.Header.Get("content-type") == "application/problem+json"
}
