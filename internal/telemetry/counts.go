package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Counts is what the metrics say of one upstream since the service started. Upstream is OtherUpstreams for
// those that share a label.
type Counts struct {
	Upstream      string
	FirstAttempts uint64
	// Retries, Denied and Ambiguous are decisions; Denied and Ambiguous by their reason's word.
	Retries   uint64
	Denied    map[string]uint64
	Ambiguous map[string]uint64
	Uncertain uint64 // requests that ended so
	CutOff    uint64 // answers
}

// Counts reads the metrics, by upstream.
func (m *Metrics) Counts() map[string]*Counts {
	all := map[string]*Counts{}
	of := func(label map[string]string) *Counts {
		name := label["upstream"]
		if all[name] == nil {
			all[name] = &Counts{Upstream: name, Denied: map[string]uint64{}, Ambiguous: map[string]uint64{}}
		}
		return all[name]
	}
	each(m.firstAttempts, func(label map[string]string, n uint64) { of(label).FirstAttempts += n })
	each(m.uncertain, func(label map[string]string, n uint64) { of(label).Uncertain += n })
	each(m.cutOff, func(label map[string]string, n uint64) { of(label).CutOff += n })
	each(m.decisions, func(label map[string]string, n uint64) {
		switch c := of(label); label["verdict"] {
		case "retry":
			c.Retries += n
		case "denied":
			c.Denied[label["reason"]] += n
		case "ambiguous":
			c.Ambiguous[label["reason"]] += n
		}
	})
	return all
}

func each(from prometheus.Collector, counter func(label map[string]string, n uint64)) {
	found := make(chan prometheus.Metric, 64)
	go func() {
		from.Collect(found)
		close(found)
	}()
	for metric := range found {
		var said dto.Metric
		if metric.Write(&said) != nil {
			continue
		}
		label := make(map[string]string, len(said.GetLabel()))
		for _, pair := range said.GetLabel() {
			label[pair.GetName()] = pair.GetValue()
		}
		counter(label, uint64(said.GetCounter().GetValue()))
	}
}
