package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Reloads counts what became of changes of the configuration file.
type Reloads struct {
	// Result counts by "applied", "refused", and "unchanged": a look that was asked for, or a file that is
	// again what is in force.
	Result *prometheus.CounterVec
	// Successful is 1 while the file, when last looked at, is what is in force.
	Successful prometheus.Gauge
	// RestartNeeded is 1 while the file has changes that wait for a restart.
	RestartNeeded prometheus.Gauge
}

// NewReloads registers the metrics.
func NewReloads(r prometheus.Registerer) *Reloads {
	m := &Reloads{
		Result:        prometheus.NewCounterVec(prometheus.CounterOpts{Name: "verdict_config_reloads_total", Help: "Changes of the configuration file, and looks at it that were asked for by SIGHUP, by what became of them: applied, refused, unchanged."}, []string{"result"}),
		Successful:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "verdict_config_last_reload_successful", Help: "1 while the configuration file, as it was last seen, is in force; 0 while it is refused and an older one is."}),
		RestartNeeded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "verdict_config_restart_needed", Help: "1 while the configuration file says something that takes effect only at a restart."}),
	}
	for _, result := range []string{"applied", "refused", "unchanged"} {
		m.Result.WithLabelValues(result)
	}
	m.Successful.Set(1)
	r.MustRegister(m.Result, m.Successful, m.RestartNeeded)
	return m
}
