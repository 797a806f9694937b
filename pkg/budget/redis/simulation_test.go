package redis

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

var (
	ordinary = []string{"kill", "pause", "cut", "flush", "restart"}
	every    = append([]string{"step", "step", "masters"}, ordinary...)
)

// The law holds over fleets of several processes, through thousands of random lives: kills, pauses,
// partitions, lost and late packets, lost and restored data, clocks that step by up to a minute, and
// two masters, where each may spend the reserve.
func TestSimulation(t *testing.T) {
	seeds := uint64(1000)
	switch {
	case os.Getenv("SOAK") != "":
		seeds = 10_000
	case raceEnabled: // there is one goroutine, so nothing to detect
		seeds = 50
	}
	for name, kinds := range map[string][]string{"ordinary": ordinary, "every": every, "none": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			total, faults := simStats{}, map[string]int{}
			breaches := 0
			for seed := range seeds {
				s := simulate(seed, sound, kinds...)
				if err := s.check(); err != nil {
					breaches++
					if breaches < 5 {
						t.Errorf("seed %d: %v: %v", seed, s.settings, err)
					}
				}
				mu.Lock()
				total.add(s.stats)
				for k, n := range s.faults {
					faults[k] += n
				}
				mu.Unlock()
			}
			t.Logf("%d lives, %d breaches: %+v, faults %v", seeds, breaches, total, faults)
			if total.Grants < int(seeds)*20 || total.Local < int(seeds)/2 || total.Returns < int(seeds) || total.Lost < int(seeds) {
				t.Error("the simulation does not simulate")
			}
		})
	}
}

// The same seed gives the same life.
func TestSimulationIsDeterministic(t *testing.T) {
	for seed := range uint64(20) {
		a, b := simulate(seed, sound, every...), simulate(seed, sound, every...)
		if fmt.Sprint(a.log) != fmt.Sprint(b.log) {
			t.Fatalf("seed %d: two lives", seed)
		}
	}
}

// The checker sees when the algorithm is wrong.
func TestMutantsAreCaught(t *testing.T) {
	for m, kinds := range map[mutant][]string{
		undated: every, flushedTwice: ordinary, returnedTwice: nil, forgets: nil, spentTwice: nil,
		noEpochs: {"flush", "restart"}, leasesAgain: {"cut"}, stepBlind: {"step"},
	} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			const most = 400
			seeds, caught := uint64(0), 0
			var last error
			for ; seeds < most && caught < 2; seeds++ {
				if err := simulate(seeds, m, kinds...).check(); err != nil {
					caught++
					last = err
				}
			}
			t.Logf("caught in %d of %d lives, last: %v", caught, seeds, last)
			if caught < 2 {
				t.Error("not caught")
			}
		})
	}
}

func (s *simStats) add(o simStats) {
	s.Grants += o.Grants
	s.Local += o.Local
	s.Refused += o.Refused
	s.Deposits += o.Deposits
	s.Returns += o.Returns
	s.Calls += o.Calls
	s.Lost += o.Lost
	s.Repeats += o.Repeats
}
