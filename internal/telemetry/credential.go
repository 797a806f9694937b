package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Credentials counts what the credential sources do. Its labels are bounded by the configuration: an
// upstream is the first cluster of an entry that declares a source.
type Credentials struct {
	fetches *prometheus.CounterVec
	issued  *prometheus.GaugeVec
	expiry  *prometheus.GaugeVec
}

// NewCredentials registers the metrics.
func NewCredentials(r prometheus.Registerer) *Credentials {
	c := &Credentials{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "verdict_credential_fetches_total", Help: "Credentials that were asked for at an upstream's source, by what came of it.",
		}, []string{"upstream", "result"}),
		issued: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verdict_credential_issued_timestamp_seconds", Help: "When the credential in use was fetched or last read.",
		}, []string{"upstream"}),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verdict_credential_expiry_timestamp_seconds", Help: "When the credential in use expires, or is taken to. Absent for a token file.",
		}, []string{"upstream"}),
	}
	r.MustRegister(c.fetches, c.issued, c.expiry)
	return c
}

// Fetched counts a fetch; result is a word of a closed list.
func (c *Credentials) Fetched(upstream, result string) {
	c.fetches.WithLabelValues(upstream, result).Inc()
}

// Issued dates the credential in use. A zero expires is none.
func (c *Credentials) Issued(upstream string, issued, expires time.Time) {
	c.issued.WithLabelValues(upstream).Set(unixSeconds(issued))
	if !expires.IsZero() {
		c.expiry.WithLabelValues(upstream).Set(unixSeconds(expires))
	}
}

// Forget drops what is told of an upstream that has no source any more.
func (c *Credentials) Forget(upstream string) {
	c.fetches.DeletePartialMatch(prometheus.Labels{"upstream": upstream})
	c.issued.DeleteLabelValues(upstream)
	c.expiry.DeleteLabelValues(upstream)
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
