package telemetry

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/verdictproxy/verdict/internal/listeners"
)

// TestListeners: the metrics as Prometheus wants them; a listener without TLS has none.
func TestListeners(t *testing.T) {
	r := prometheus.NewRegistry()
	l := NewListeners(r)
	if n, err := testutil.GatherAndCount(r); n != 0 || err != nil {
		t.Errorf("%d series before there is TLS, %v", n, err)
	}
	l.NotAfter("api", func() time.Time { return time.Unix(1800000000, 0) })
	l.NotAfter("admin", func() time.Time { return time.Unix(1900000000, 0) })
	l.Refused("api", listeners.Unlisted)
	if problems, err := testutil.GatherAndLint(r); err != nil || problems != nil {
		t.Errorf("%v, %v", problems, err)
	}
	want := `
# HELP verdict_certificate_expiry_timestamp_seconds When the certificate that a listener shows expires.
# TYPE verdict_certificate_expiry_timestamp_seconds gauge
verdict_certificate_expiry_timestamp_seconds{listener="admin"} 1.9e+09
verdict_certificate_expiry_timestamp_seconds{listener="api"} 1.8e+09
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "verdict_certificate_expiry_timestamp_seconds"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(l.refused); n != 2*len(listeners.Refusals()) {
		t.Errorf("%d series of refusals", n)
	}
	if n := testutil.ToFloat64(l.refused.WithLabelValues("api", "unlisted")); n != 1 {
		t.Errorf("counted %v", n)
	}
}
