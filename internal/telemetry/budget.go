package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// SharedBudget counts what a budget that is shared by way of Redis does.
type SharedBudget struct {
	connected   prometheus.Gauge
	localGrants prometheus.Counter
	calls       *prometheus.CounterVec
	seconds     prometheus.Histogram
}

// NewSharedBudget registers the metrics; it counts as connected until told otherwise.
func NewSharedBudget(r prometheus.Registerer) *SharedBudget {
	s := &SharedBudget{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "verdict_budget_redis_connected", Help: "1 while the budget's Redis answers; 0 while this process pays for retries with its own first attempts alone.",
		}),
		localGrants: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "verdict_budget_local_grants_total", Help: "Retries paid by first attempts that this process had not flushed to Redis, because no lease came in time.",
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verdict_budget_redis_calls_total", Help: "Calls to the budget's Redis.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "verdict_budget_redis_call_seconds", Help: "Calls to the budget's Redis, by how long they took.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 12),
		}),
	}
	r.MustRegister(s.connected, s.localGrants, s.calls, s.seconds)
	for _, outcome := range []string{"ok", "error"} {
		s.calls.WithLabelValues(outcome)
	}
	s.connected.Set(1)
	return s
}

// Call counts a call to the server.
func (s *SharedBudget) Call(d time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	s.calls.WithLabelValues(outcome).Inc()
	s.seconds.Observe(d.Seconds())
}

// LocalGrant counts a retry that this process's own first attempts paid for.
func (s *SharedBudget) LocalGrant() { s.localGrants.Inc() }

// Connected says whether the server answers.
func (s *SharedBudget) Connected(yes bool) {
	if yes {
		s.connected.Set(1)
	} else {
		s.connected.Set(0)
	}
}
