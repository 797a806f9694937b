package budgettest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// A World is what a simulated budget is opened in.
type World struct {
	Clock        func() int64 // monotonic nanoseconds, except that it sometimes steps back
	Log          io.Writer    // for the event log
	Settings     func(upstream string) budget.Settings
	MaxUpstreams int
}

// Stats counts what a simulation did, so that a test can tell that it did something.
type Stats struct {
	Deposits, Grants, Refused, Returns, SecondReturns, ForeignReturns, Gaps, StepsBack int
}

// Add sums up.
func (s *Stats) Add(o Stats) {
	s.Deposits += o.Deposits
	s.Grants += o.Grants
	s.Refused += o.Refused
	s.Returns += o.Returns
	s.SecondReturns += o.SecondReturns
	s.ForeignReturns += o.ForeignReturns
	s.Gaps += o.Gaps
	s.StepsBack += o.StepsBack
}

// Simulate drives a budget on a virtual clock through a random life that depends on seed alone:
// bursts, pauses around the length of an interval, idle gaps of days, clocks that step back, grants
// returned late, twice and to the wrong account, more upstreams than accounts. Then it runs Check on
// the event log, and returns what that returns.
func Simulate(seed uint64, open func(World) budget.Budget) (Stats, error) {
	s, err := simulate(seed, open)
	if err != nil {
		return s.stats, err
	}
	return s.stats, Check(&s.log, s.settingsOf)
}

func simulate(seed uint64, open func(World) budget.Budget) (*simulation, error) {
	s := newSimulation(seed)
	b := open(World{
		Clock: func() int64 { return s.now }, Log: &s.log, Settings: s.settingsOf, MaxUpstreams: 1 + s.rnd.IntN(4),
	})
	for range 350 {
		s.step(b)
	}
	return s, b.Close()
}

type simulation struct {
	rnd      *rand.Rand
	now      int64
	log      bytes.Buffer
	settings budget.Settings
	names    int
	handles  map[string]budget.Account // kept for long: they may outlive their account
	held     []held
	stats    Stats
}

type held struct {
	upstream string
	grant    budget.Grant
	returned bool
}

func newSimulation(seed uint64) *simulation {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	r := rand.New(rand.NewChaCha8(key))
	intervals := []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Second + time.Duration(r.IntN(59_000))*time.Millisecond}
	return &simulation{
		rnd: r,
		now: r.Int64N(int64(time.Hour)),
		settings: budget.Settings{
			Ratio:    pick(r, 0, 1, 200, 600, 1000, r.IntN(1001)),
			Reserve:  pick(r, 0, 1, 5, 50, r.IntN(200)),
			Interval: pick(r, intervals...),
		},
		names:   1 + r.IntN(6),
		handles: map[string]budget.Account{},
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// settingsOf is the same for all upstreams; the shared account has no reserve and the default interval.
func (s *simulation) settingsOf(upstream string) budget.Settings {
	if upstream == "" {
		return budget.Settings{Ratio: s.settings.Ratio, Interval: budget.DefaultSettings().Interval}
	}
	return s.settings
}

func (s *simulation) step(b budget.Budget) {
	s.pass()
	upstream := fmt.Sprint("u", s.rnd.IntN(s.names))
	if s.handles[upstream] == nil || s.rnd.IntN(4) == 0 {
		s.handles[upstream] = b.Account(upstream)
	}
	a := s.handles[upstream]
	switch s.rnd.IntN(8) {
	case 0, 1:
		n := 1 + s.rnd.IntN(pick(s.rnd, 3, 20, 100))
		a.Deposit(n)
		s.stats.Deposits += n
	case 2, 3, 4:
		s.withdraw(upstream, a, 1+s.rnd.IntN(pick(s.rnd, 2, 20, 60)))
	default:
		s.giveBack(upstream, a)
	}
}

// pass lets time pass, or not.
func (s *simulation) pass() {
	interval := int64(s.settings.Interval)
	switch s.rnd.IntN(40) {
	default:
		s.now += s.rnd.Int64N(interval / 100)
	case 0, 1, 2, 3, 4, 5:
	case 6, 7, 8, 9:
		s.now += s.rnd.Int64N(interval / 5)
	case 10, 11:
		s.now += interval + s.rnd.Int64N(3) - 1
	case 12:
		s.now += interval*(49+s.rnd.Int64N(4))/50 + s.rnd.Int64N(3) - 1
	case 13:
		s.now += s.rnd.Int64N(3 * interval)
		s.stats.Gaps++
	case 14:
		s.now += s.rnd.Int64N(int64(48 * time.Hour))
		s.stats.Gaps++
	case 15:
		s.now -= s.rnd.Int64N(interval)
		s.stats.StepsBack++
	}
}

func (s *simulation) withdraw(upstream string, a budget.Account, n int) {
	for range n {
		g, ok := a.TryWithdraw(context.Background())
		if !ok {
			s.stats.Refused++
			return
		}
		s.stats.Grants++
		s.held = append(s.held, held{upstream: upstream, grant: g})
	}
}

// giveBack returns a few of the latest grants, some that went back before, some to the wrong account,
// and often asks at once for what that may have given.
func (s *simulation) giveBack(upstream string, a budget.Account) {
	for range s.rnd.IntN(6) {
		if len(s.held) == 0 {
			return
		}
		h := &s.held[len(s.held)-1-s.rnd.IntN(min(len(s.held), 30))]
		switch {
		case h.upstream != upstream && s.rnd.IntN(4) > 0:
			continue
		case h.upstream != upstream:
			s.stats.ForeignReturns++
		case h.returned:
			s.stats.SecondReturns++
		default:
			s.stats.Returns++
			h.returned = true
		}
		a.Return(h.grant)
	}
	if s.rnd.IntN(2) == 0 {
		s.withdraw(upstream, a, 60)
	}
}
