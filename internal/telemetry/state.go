package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// EventLog registers whether the budget's event log has broken: then nothing is granted until a restart.
func EventLog(r prometheus.Registerer, broken func() bool) {
	gauge(r, "verdict_budget_event_log_broken", "1 once the budget's event log could not be written: no retry is granted until a restart.",
		func() float64 { return number(broken()) })
}

// Switches registers what an operator has set by hand.
func Switches(r prometheus.Registerer, killed func() bool, drained func() []string) {
	gauge(r, "verdict_retries_killed", "1 while an operator's kill switch denies all retries.",
		func() float64 { return number(killed()) })
	gauge(r, "verdict_drained_upstreams", "Upstreams towards which an operator has denied retries.",
		func() float64 { return float64(len(drained())) })
}

func gauge(r prometheus.Registerer, name, help string, value func() float64) {
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Accounts registers what the budget's accounts hold. Where Redis keeps the budget, it is asked at each
// scrape.
func (m *Metrics) Accounts(r prometheus.Registerer, list func() []budget.State) {
	r.MustRegister(&accounts{
		list: list, label: m.upstream,
		earned:  prometheus.NewDesc("verdict_budget_earned_tokens", "Retries that first attempts of the last interval can pay for now.", []string{"upstream"}, nil),
		reserve: prometheus.NewDesc("verdict_budget_reserve_tokens", "Retries that the reserve can pay for now.", []string{"upstream"}, nil),
	})
}

type accounts struct {
	list            func() []budget.State
	label           func(string) string
	earned, reserve *prometheus.Desc
}

// Describe is documented at prometheus.Collector, as is Collect.
func (a *accounts) Describe(c chan<- *prometheus.Desc) {
	c <- a.earned
	c <- a.reserve
}

func (a *accounts) Collect(c chan<- prometheus.Metric) {
	earned, reserve := map[string]float64{}, map[string]float64{}
	for _, s := range a.list() {
		label := a.label(s.Upstream) // several may share one
		earned[label] += float64(s.EarnedMilli) / budget.Token
		reserve[label] += float64(s.ReserveLeft)
	}
	for label, tokens := range earned {
		c <- prometheus.MustNewConstMetric(a.earned, prometheus.GaugeValue, tokens, label)
		c <- prometheus.MustNewConstMetric(a.reserve, prometheus.GaugeValue, reserve[label], label)
	}
}
