package console

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/telemetry"
)

const (
	// keep is how many samples are kept of each upstream: five minutes of two seconds each.
	keep = 150
	// maxUpstreams bounds the upstreams that are shown; one takes about 10 KiB. Those that nothing is
	// heard of make room for those that are in use.
	maxUpstreams = 100
)

// point is one sample of an upstream. The counts are since the sample before; the rest is what its budget
// showed then.
type point struct {
	Requests, Retries, Denied, Ambiguous uint32
	Earned                               float32 // tokens
	Left                                 int32   // tokens of the reserve
	Firsts, Spent, Refused               int32   // in the budget's window
	reasons                              map[string]uint32
}

// history is an upstream's samples, the oldest first.
type history struct {
	points  []point
	last    telemetry.Counts
	account *retryv1.Account
	drained bool
}

// samples is bounded and safe for concurrent use.
type samples struct {
	every time.Duration

	mu        sync.Mutex
	at        time.Time // of the last sample
	number    uint64
	upstreams map[string]*history
	unseen    int // upstreams for which there was no room
	switches  *retryv1.GetDrainedResponse
	changed   chan struct{} // closed and replaced at each sample
}

func newSamples(every time.Duration) *samples {
	return &samples{every: every, upstreams: map[string]*history{}, changed: make(chan struct{})}
}

// sample adds what holds now. What cannot be asked for is left out.
func (c *Console) sample(ctx context.Context) {
	switches, _ := c.options.Admin.GetDrained(ctx, new(retryv1.GetDrainedRequest))
	accounts := map[string]*retryv1.Account{}
	if listed, err := c.options.Budgets.List(ctx, new(retryv1.BudgetServiceListRequest)); err == nil {
		for _, a := range listed.GetAccounts() {
			name := a.GetUpstream()
			if name == "" {
				name = telemetry.OtherUpstreams
			}
			accounts[name] = a
		}
	}
	c.samples.add(time.Now(), c.options.Counts(), accounts, switches)
}

func (s *samples) add(now time.Time, counts map[string]*telemetry.Counts, accounts map[string]*retryv1.Account, switches *retryv1.GetDrainedResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.upstreams {
		h.add(counts[name], accounts[name], slices.Contains(switches.GetUpstreams(), name))
	}
	s.unseen = 0
	for _, name := range worth(counts, accounts, switches) {
		if s.upstreams[name] != nil {
			continue
		}
		drained := slices.Contains(switches.GetUpstreams(), name)
		if len(s.upstreams) >= maxUpstreams && !((drained || used(accounts[name])) && s.makeRoom()) {
			s.unseen++
			continue
		}
		h := new(history)
		if first := counts[name]; s.number == 0 && first != nil {
			h.last = *first // counted before anybody looked: it is not dated
		}
		h.add(counts[name], accounts[name], drained)
		s.upstreams[name] = h
	}
	s.at, s.switches = now, switches
	s.number++
	close(s.changed)
	s.changed = make(chan struct{})
}

// worth lists, in order, the upstreams that there is something to say of. An account that nothing ever
// happened to is none: whoever asks what the rules would say makes one.
func worth(counts map[string]*telemetry.Counts, accounts map[string]*retryv1.Account, switches *retryv1.GetDrainedResponse) []string {
	names := map[string]bool{}
	for name := range counts {
		names[name] = true
	}
	for name, a := range accounts {
		if used(a) {
			names[name] = true
		}
	}
	for _, name := range switches.GetUpstreams() {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// used holds where something happened in the budget's window.
func used(a *retryv1.Account) bool {
	return a.GetFirstAttempts() > 0 || a.GetRetries() > 0 || a.GetRefused() > 0
}

// makeRoom forgets an upstream of which nothing was heard for as long as the samples go.
func (s *samples) makeRoom() bool {
	for name, h := range s.upstreams {
		if !h.drained && !slices.ContainsFunc(h.points, point.busy) {
			delete(s.upstreams, name)
			return true
		}
	}
	return false
}

func (p point) busy() bool { return p.Requests+p.Retries+p.Denied+p.Ambiguous > 0 || p.Firsts > 0 }

func (h *history) add(counts *telemetry.Counts, account *retryv1.Account, drained bool) {
	p := point{
		Earned: float32(account.GetEarnedMilli()) / 1000,
		Left:   int32(account.GetReserveLeft()),
		Firsts: int32(account.GetFirstAttempts()),
		Spent:  int32(account.GetRetries()), Refused: int32(account.GetRefused()),
	}
	if counts != nil {
		p.Requests = since(h.last.FirstAttempts, counts.FirstAttempts)
		p.Retries = since(h.last.Retries, counts.Retries)
		p.Denied = p.count("denied", h.last.Denied, counts.Denied)
		p.Ambiguous = p.count("ambiguous", h.last.Ambiguous, counts.Ambiguous)
		h.last = *counts
	}
	h.account, h.drained = account, drained
	if len(h.points) == keep {
		h.points = slices.Delete(h.points, 0, 1)
	}
	h.points = append(h.points, p)
}

func (p *point) count(verdict string, before, now map[string]uint64) (sum uint32) {
	for reason, n := range now {
		if d := since(before[reason], n); d > 0 {
			if p.reasons == nil {
				p.reasons = map[string]uint32{}
			}
			p.reasons[verdict+"("+reason+")"] = d
			sum += d
		}
	}
	return sum
}

func since(before, now uint64) uint32 { return uint32(min(now-min(before, now), 1<<32-1)) }
