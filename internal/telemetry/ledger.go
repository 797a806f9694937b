package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Cases registers how many uncertain outcomes are open in the ledger, and how many it has lost.
func Cases(r prometheus.Registerer, count func() (open int, lost uint64)) {
	r.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "verdict_ledger_open_cases", Help: "Uncertain outcomes in the ledger that nobody has resolved; with Redis the whole fleet's, the same in each process.",
		}, func() float64 { open, _ := count(); return float64(open) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "verdict_ledger_lost_cases_total", Help: "Uncertain outcomes that fell out of the full ledger unresolved; with Redis the whole fleet's, the same in each process.",
		}, func() float64 { _, lost := count(); return float64(lost) }),
	)
}
