package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// event is what a page is sent: at first all samples, then each new one.
type event struct {
	kind      string         // all or now
	Process   string         `json:"process"`
	At        int64          `json:"at"`    // milliseconds since 1970
	Every     int64          `json:"every"` // milliseconds between two samples
	Keep      int            `json:"keep"`  // samples
	Draining  bool           `json:"draining"`
	Killed    bool           `json:"killed"`
	Open      int            `json:"open"` // cases
	Lost      uint64         `json:"lost"` // cases
	Unseen    int            `json:"unseen"`
	Upstreams []upstreamView `json:"upstreams"`
}

type upstreamView struct {
	Name    string `json:"name"`
	Drained bool   `json:"drained"`
	Shadow  bool   `json:"shadow"`
	// Of the budget: a first attempt earns Ratio tokens, which live for Interval seconds.
	Ratio    float64 `json:"ratio"`
	Reserve  uint32  `json:"reserve"`
	Interval float64 `json:"interval"`
	// Reasons counts over all samples.
	Reasons map[string]uint64 `json:"reasons"`
	// Points are the samples, the oldest first, as POINT's fields.
	Points [][9]float64 `json:"points"`
}

// fields of a point as a page gets it.
func (p point) fields() [9]float64 {
	tenths := float64(int64(p.Earned*10+0.5)) / 10
	return [9]float64{
		float64(p.Requests), float64(p.Retries), float64(p.Denied), float64(p.Ambiguous),
		tenths, float64(p.Left), float64(p.Firsts), float64(p.Spent), float64(p.Refused),
	}
}

// view shows all samples, or only the last one to whoever has seen those before it. next is closed at the
// next sample.
func (s *samples) view(seen uint64) (e event, number uint64, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := seen == 0 || seen+1 != s.number
	e = event{
		kind: "now",
		At:   s.at.UnixMilli(), Every: s.every.Milliseconds(), Keep: keep, Unseen: s.unseen,
		Killed:    s.switches.GetKillSwitch() == retryv1.KillSwitch_KILL_SWITCH_ON,
		Upstreams: []upstreamView{},
	}
	if all {
		e.kind = "all"
	}
	for _, name := range slices.Sorted(maps.Keys(s.upstreams)) {
		h := s.upstreams[name]
		u := upstreamView{
			Name: name, Drained: h.drained, Ratio: float64(h.account.GetRatioMilli()) / 1000,
			Reserve: h.account.GetReserve(), Interval: h.account.GetInterval().AsDuration().Seconds(), Reasons: map[string]uint64{},
		}
		for i, p := range h.points {
			for reason, n := range p.reasons {
				u.Reasons[reason] += uint64(n)
			}
			if all || i == len(h.points)-1 {
				u.Points = append(u.Points, p.fields())
			}
		}
		e.Upstreams = append(e.Upstreams, u)
	}
	return e, s.number, s.changed
}

// live streams samples (text/event-stream) until the page leaves or the program ends.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	select {
	case c.viewers <- struct{}{}:
		defer func() { <-c.viewers }()
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d pages are watching already", maxViewers))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for seen := uint64(0); ; {
		e, number, next := c.samples.view(seen)
		if number > seen && c.send(w, out, e) != nil {
			return
		}
		seen = number
		select {
		case <-r.Context().Done():
			return
		case <-c.ended:
			return
		case <-next:
		}
	}
}

func (c *Console) send(w http.ResponseWriter, out *http.ResponseController, e event) error {
	e.Process, e.Draining = c.process, c.options.Draining()
	e.Open, e.Lost = c.options.Cases()
	for i := range e.Upstreams {
		e.Upstreams[i].Shadow = c.options.Shadow(e.Upstreams[i].Name)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := out.SetWriteDeadline(time.Now().Add(c.stalled)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.kind, text); err != nil {
		return err
	}
	return out.Flush()
}
