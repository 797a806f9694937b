// Package switches holds what an operator sets by hand while the service runs: drained upstreams and the
// kill switch. Nothing of it survives a restart.
package switches

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// MaxDrained bounds the drained upstreams.
const MaxDrained = 1000

// ErrFull is returned when MaxDrained upstreams are drained already.
var ErrFull = errors.New("too many upstreams are drained")

// Switches is ready to use as it is, with nothing set, and safe for concurrent use.
type Switches struct {
	mu      sync.Mutex // of the writers
	drained atomic.Pointer[map[string]bool]
	killed  atomic.Bool
}

// Runtime says whether a retry towards an upstream may begin: rule 5 of the decision order.
func (s *Switches) Runtime(upstream string) decision.RuntimeState {
	if s.killed.Load() {
		return decision.RuntimeDraining
	}
	if drained := s.drained.Load(); drained != nil && (*drained)[upstream] {
		return decision.RuntimeDraining
	}
	return decision.RuntimeServing
}

// Drain denies every retry towards an upstream. An error is ErrFull.
func (s *Switches) Drain(upstream string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.clone()
	if next[upstream] = true; len(next) > MaxDrained {
		return ErrFull
	}
	s.drained.Store(&next)
	return nil
}

// Undrain ends what Drain began.
func (s *Switches) Undrain(upstream string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.clone()
	delete(next, upstream)
	s.drained.Store(&next)
}

func (s *Switches) clone() map[string]bool {
	next := make(map[string]bool)
	if drained := s.drained.Load(); drained != nil {
		maps.Copy(next, *drained)
	}
	return next
}

// Drained returns the drained upstreams, sorted.
func (s *Switches) Drained() []string {
	drained := s.drained.Load()
	if drained == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(*drained))
}

// SetKill denies every retry towards every upstream, or ends that.
func (s *Switches) SetKill(on bool) { s.killed.Store(on) }

// Killed reports what SetKill has set.
func (s *Switches) Killed() bool { return s.killed.Load() }
