package telemetry

import "github.com/prometheus/client_golang/prometheus"

// SharedLedger registers how a ledger that a Redis keeps reaches it: whether the server answers, how many
// cases wait to be brought there, and how many were lost here because too many waited.
func SharedLedger(r prometheus.Registerer, connected func() bool, waiting func() (cases int, lost uint64)) {
	r.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "verdict_ledger_redis_connected", Help: "1 while the ledger's Redis answers; 0 while uncertain outcomes wait in this process.",
		}, func() float64 {
			if connected() {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "verdict_ledger_waiting_cases", Help: "Uncertain outcomes of this process that are not yet in the ledger's Redis.",
		}, func() float64 { cases, _ := waiting(); return float64(cases) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "verdict_ledger_unwritten_cases_total", Help: "Uncertain outcomes of this process that were lost on their way to the ledger's Redis, because too many waited.",
		}, func() float64 { _, lost := waiting(); return float64(lost) }),
	)
}
