package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verdictproxy/verdict/internal/listeners"
)

// Listeners counts what happens before a connection reaches a server.
type Listeners struct {
	registry prometheus.Registerer
	refused  *prometheus.CounterVec
}

// NewListeners registers the metrics.
func NewListeners(r prometheus.Registerer) *Listeners {
	l := &Listeners{registry: r, refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "verdict_refused_connections_total", Help: "Connections that did not get through the TLS handshake.",
	}, []string{"listener", "why"})}
	r.MustRegister(l.refused)
	return l
}

// Refused counts a connection. listener is one of data_plane, api and admin.
func (l *Listeners) Refused(listener string, why listeners.Refusal) {
	l.refused.WithLabelValues(listener, why.String()).Inc()
}

// NotAfter registers a listener with TLS, and when the certificate that it shows expires.
func (l *Listeners) NotAfter(listener string, notAfter func() time.Time) {
	for _, why := range listeners.Refusals() {
		l.refused.WithLabelValues(listener, why.String())
	}
	l.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "verdict_certificate_expiry_timestamp_seconds", Help: "When the certificate that a listener shows expires.",
		ConstLabels: prometheus.Labels{"listener": listener},
	}, func() float64 { return float64(notAfter().Unix()) }))
}
