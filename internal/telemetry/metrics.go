// Package telemetry holds the Prometheus metrics. Every label is bounded: words come from closed
// lists, upstreams beyond a limit share one label.
package telemetry

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// OtherUpstreams is the label that upstreams beyond the limit, and those not known, share.
const OtherUpstreams = "other"

// maxUpstreams bounds the upstream label's values.
const maxUpstreams = 1000

// Metrics counts what the service decides. See New for names and meanings.
type Metrics struct {
	FactsMissing   prometheus.Counter
	Finalized      prometheus.Counter
	WaitsAbandoned prometheus.Counter
	Uncredentialed prometheus.Counter
	Waited         prometheus.Histogram

	decisions     *prometheus.CounterVec
	uncertain     *prometheus.CounterVec
	firstAttempts *prometheus.CounterVec
	cutOff        *prometheus.CounterVec
	took          *prometheus.HistogramVec

	mu        sync.RWMutex
	upstreams map[string]string
}

// New registers the metrics.
func New(r prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m := &Metrics{
		FactsMissing:   counter("verdict_facts_missing_total", "Failing answers that Envoy showed without its fact headers, or with facts of another version: nothing is proven, nothing is retried."),
		Finalized:      counter("verdict_finalized_total", "Failing answers that reached the finalizer without a judge's report."),
		WaitsAbandoned: counter("verdict_waits_abandoned_total", "Waits that ended because the stream did: the client left, or Envoy gave the judge up."),
		Uncredentialed: counter("verdict_uncredentialed_attempts_total", "Attempts that were not sent, because there was no credential for them."),
		Waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "verdict_wait_seconds", Help: "Backoffs that were waited to their end.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 12),
		}),
		decisions:     vector("verdict_decisions_total", "Decisions on failing answers. A retry is counted once it is said.", "upstream", "verdict", "reason", "evidence"),
		uncertain:     vector("verdict_uncertain_outcomes_total", "Requests that ended in a failure and may have been executed, whatever the verdict's word.", "upstream"),
		firstAttempts: vector("verdict_first_attempts_total", "First attempts that had an upstream host: each funds the retry budget.", "upstream"),
		cutOff:        vector("verdict_cut_off_answers_total", "Answers that the upstream cut off after their headers: PARTIAL_RESPONSE, which no filter can change.", "upstream"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verdict_decision_seconds", Help: "Decisions for Envoy, by how long they took from its question on, without the wait before a retry.",
			Buckets: prometheus.ExponentialBuckets(0.00001, 2, 16),
		}, []string{"role"}),
		upstreams: map[string]string{},
	}
	r.MustRegister(m.Waited, m.took)
	return m
}

// Decision counts one decision, and an uncertain outcome where the request ends with it.
func (m *Metrics) Decision(upstream string, d decision.Decision) {
	label := m.upstream(upstream)
	m.decisions.WithLabelValues(label, d.Verdict.String(), d.Reason.String(), d.Evidence.String()).Inc()
	if d.Uncertain && d.Verdict != decision.Retry {
		m.uncertain.WithLabelValues(label).Inc()
	}
}

// Took counts how long a decision took. role is judge, finalizer or plain.
func (m *Metrics) Took(role string, d time.Duration) {
	m.took.WithLabelValues(role).Observe(d.Seconds())
}

// FirstAttempts counts n first attempts.
func (m *Metrics) FirstAttempts(upstream string, n int) {
	m.firstAttempts.WithLabelValues(m.upstream(upstream)).Add(float64(n))
}

// CutOff counts an answer that was cut off half-way.
func (m *Metrics) CutOff(upstream string) { m.cutOff.WithLabelValues(m.upstream(upstream)).Inc() }

// upstream bounds the label: the first maxUpstreams names keep their own. A name that is not UTF-8
// cannot be a label's value.
func (m *Metrics) upstream(name string) string {
	if name == "" || !utf8.ValidString(name) {
		return OtherUpstreams
	}
	m.mu.RLock()
	label, ok := m.upstreams[name]
	m.mu.RUnlock()
	if ok {
		return label
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.upstreams[name]; !ok && len(m.upstreams) >= maxUpstreams {
		return OtherUpstreams
	}
	m.upstreams[name] = name
	return name
}

// Waiting registers the number of failed answers that are held now until their backoff is over.
func Waiting(r prometheus.Registerer, waiting func() int64) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "verdict_waiting", Help: "Failed answers that are held now until their backoff is over.",
	}, func() float64 { return float64(waiting()) }))
}
