package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Outcomes of a played request.
const (
	asExpected = "as_expected"
	different  = "different"  // no promise broken: something was away, or a budget was empty
	unobserved = "unobserved" // the upstream could not be asked, or has forgotten
	brokenOne  = "broken"
)

// An uncertain request is one whose client was told that its outcome is uncertain.
type uncertain struct {
	Case     string    `json:"case"`
	Scenario string    `json:"scenario"`
	Reason   string    `json:"reason"`
	Begin    time.Time `json:"begin"`
	End      time.Time `json:"end"`
}

// A summary is what the load generator has seen since it was started.
type summary struct {
	Rounds int `json:"rounds"` // of all scenarios
	// Outcomes are counts by scenario and outcome.
	Outcomes map[string]map[string]int `json:"outcomes"`
	// Different is the latest difference of each scenario, Broken the latest promises that were broken.
	Different map[string]string `json:"different"`
	Broken    []string          `json:"broken"`
	// Uncertain are the latest.
	Uncertain []uncertain `json:"uncertain"`
}

const (
	maxBroken    = 100
	maxUncertain = 10_000
	// quiet is how long a load generator that has seen no answer counts as healthy.
	quiet = 15 * time.Second
)

// seen collects what was seen.
type seen struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram

	mu     sync.Mutex
	report summary
	latest time.Time
}

func newSeen() *seen {
	s := &seen{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "demo_requests_total", Help: "Requests of the load generator, by what came of them.",
		}, []string{"scenario", "outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "demo_request_seconds", Help: "Requests of the load generator, by how long they took.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 13),
		}),
		report: summary{Outcomes: map[string]map[string]int{}, Different: map[string]string{}},
	}
	s.registry.MustRegister(s.requests, s.seconds)
	return s
}

func (s *seen) round() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Rounds++
}

// count judges an exchange. unseen is why the upstream's record of it is not known.
func (s *seen) count(e exchange, unseen error, begin time.Time) {
	outcome, text := asExpected, ""
	switch {
	case unseen != nil:
		outcome, text = unobserved, unseen.Error()
		e.hits = nil
		if broken := e.broken(); broken != "" { // what holds without the record
			outcome, text = brokenOne, broken
		}
	case e.broken() != "":
		outcome, text = brokenOne, e.broken()
	case e.want.status != 0 && e.unexpected() != "":
		outcome, text = different, e.unexpected()
	}
	s.requests.WithLabelValues(e.name, outcome).Inc()
	s.seconds.Observe(e.answer.Elapsed.Seconds())

	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = time.Now()
	if s.report.Outcomes[e.name] == nil {
		s.report.Outcomes[e.name] = map[string]int{}
	}
	s.report.Outcomes[e.name][outcome]++
	switch outcome {
	case different, unobserved:
		s.report.Different[e.name] = text
	case brokenOne:
		line := fmt.Sprintf("%s %s: %s: status %d, report %+v, hits %s", time.Now().UTC().Format(time.TimeOnly), e.name, text,
			e.answer.Status, e.answer.Report(), played(e))
		s.report.Broken = last(append(s.report.Broken, line), maxBroken)
		fmt.Println("promise broken:", line)
	}
	if report := e.answer.Report(); report.AmbiguityID != "" {
		s.report.Uncertain = last(append(s.report.Uncertain,
			uncertain{Case: report.AmbiguityID, Scenario: e.name, Reason: report.Reason, Begin: begin, End: time.Now()}), maxUncertain)
	}
}

func played(e exchange) string {
	text := ""
	for _, hit := range e.hits {
		text += fmt.Sprintf("[%s complete=%v executed=%v]", hit.Fault, hit.Complete, hit.Executed)
	}
	return text
}

func last[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// pages serves the load generator's own health, metrics and report.
func (s *seen) pages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case len(s.report.Broken) > 0:
			http.Error(w, s.report.Broken[len(s.report.Broken)-1], http.StatusInternalServerError)
		case time.Since(s.latest) > quiet:
			http.Error(w, "no answer lately", http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "ok")
		}
	})
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		text, err := json.Marshal(s.report)
		s.mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("content-type", "application/json")
		_, _ = w.Write(text)
	})
	return mux
}
