package console

import (
	"fmt"
	"testing"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/telemetry"
)

func (s *samples) only(t *testing.T, name string) (upstreamView, [9]float64) {
	t.Helper()
	e, _, _ := s.view(0)
	for _, u := range e.Upstreams {
		if u.Name == name {
			return u, u.Points[len(u.Points)-1]
		}
	}
	t.Fatalf("no %s among %d upstreams", name, len(e.Upstreams))
	return upstreamView{}, [9]float64{}
}

// Counts become differences; what was counted before the first sample is nobody's, what an upstream that
// appears later has counted is its first sample's.
func TestSamples(t *testing.T) {
	s := newSamples(time.Second)
	counts := func(n uint64) *telemetry.Counts {
		return &telemetry.Counts{FirstAttempts: n, Retries: n / 2, Denied: map[string]uint64{"deadline": n}, Ambiguous: map[string]uint64{"no_evidence": 1}}
	}
	account := &retryv1.Account{EarnedMilli: 12_340, ReserveLeft: 7, FirstAttempts: 62, Retries: 3, Refused: 2, RatioMilli: 200, Reserve: 100}
	s.add(time.Unix(1, 0), map[string]*telemetry.Counts{"app": counts(1000)}, nil, nil)
	if _, p := s.only(t, "app"); p != [9]float64{} {
		t.Errorf("at first %v", p)
	}
	s.add(time.Unix(2, 0), map[string]*telemetry.Counts{"app": counts(1010), "new": counts(4)}, map[string]*retryv1.Account{"app": account}, nil)
	u, p := s.only(t, "app")
	if want := [9]float64{10, 5, 10, 0, 12.3, 7, 62, 3, 2}; p != want {
		t.Errorf("%v, want %v", p, want)
	}
	if len(u.Points) != 2 || len(u.Reasons) != 1 || u.Reasons["denied(deadline)"] != 10 || u.Ratio != 0.2 || u.Reserve != 100 {
		t.Errorf("%+v", u)
	}
	if u, p := s.only(t, "new"); p[0] != 4 || p[3] != 1 || len(u.Points) != 1 {
		t.Errorf("a new one: %+v", u)
	}
	s.add(time.Unix(3, 0), map[string]*telemetry.Counts{"app": counts(5)}, nil, &retryv1.GetDrainedResponse{Upstreams: []string{"app"}, KillSwitch: retryv1.KillSwitch_KILL_SWITCH_ON})
	if u, p := s.only(t, "app"); p[0] != 0 || !u.Drained {
		t.Errorf("counts that fall: %+v", u)
	}
	if e, _, _ := s.view(0); !e.Killed || e.kind != "all" || e.At != 3000 {
		t.Errorf("%+v", e)
	}
	if e, n, _ := s.view(2); n != 3 || e.kind != "now" || len(e.Upstreams[0].Points) != 1 || e.Upstreams[0].Reasons["denied(deadline)"] != 10 {
		t.Errorf("after the second: %+v", e)
	}
	if e, _, _ := s.view(1); e.kind != "all" {
		t.Error("a page that has missed one does not begin anew")
	}
}

// Neither time nor names make it grow: the idle make room, and of the rest is said that there are more.
func TestSamplesAreBounded(t *testing.T) {
	s := newSamples(time.Second)
	counts := map[string]*telemetry.Counts{}
	for i := range maxUpstreams {
		counts[fmt.Sprintf("idle-%03d", i)] = &telemetry.Counts{FirstAttempts: 1}
	}
	for range 2 * keep {
		s.add(time.Now(), counts, nil, nil)
	}
	if u, _ := s.only(t, "idle-000"); len(u.Points) != keep {
		t.Errorf("%d samples are kept", len(u.Points))
	}
	accounts := map[string]*retryv1.Account{}
	for n := range uint64(3) {
		for i := range maxUpstreams + 20 {
			name := fmt.Sprintf("busy-%03d", i)
			counts[name], accounts[name] = &telemetry.Counts{FirstAttempts: n + 1}, &retryv1.Account{FirstAttempts: 1}
		}
		s.add(time.Now(), counts, accounts, nil)
	}
	e, _, _ := s.view(0)
	busy := 0
	for _, u := range e.Upstreams {
		if u.Name[:4] == "busy" {
			busy++
		}
	}
	if len(e.Upstreams) != maxUpstreams || busy != maxUpstreams || e.Unseen != 20+maxUpstreams {
		t.Errorf("%d upstreams, %d of them busy, %d not shown", len(e.Upstreams), busy, e.Unseen)
	}
}

// An account that was only asked for is none of traffic's.
func TestAskedForIsNotSeen(t *testing.T) {
	s := newSamples(time.Second)
	s.add(time.Now(), nil, map[string]*retryv1.Account{"asked": {ReserveLeft: 100}, "used": {FirstAttempts: 1}, "": nil}, &retryv1.GetDrainedResponse{Upstreams: []string{"drained"}})
	e, _, _ := s.view(0)
	if len(e.Upstreams) != 2 || e.Upstreams[0].Name != "drained" || e.Upstreams[1].Name != "used" {
		t.Errorf("%+v", e.Upstreams)
	}
}
