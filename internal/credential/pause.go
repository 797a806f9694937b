package credential

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// pause keeps a source from being asked again at once. Its zero value lets everything through.
type pause struct {
	streak int
	until  time.Time
	cause  error
}

// grow begins a pause: the n-th in a row is drawn from the upper half of [0, firstPause x 2^(n-1)], at
// most longestPause, so that the processes of a fleet do not come back together.
func (p *pause) grow(now time.Time, cause error) {
	longest := longestPause
	if p.streak < 5 {
		longest = min(longestPause, firstPause<<p.streak)
		p.streak++
	}
	p.until = now.Add(longest/2 + rand.N(longest/2))
	p.cause = cause
}

// refuses returns an ErrBackingOff while the pause lasts.
func (p *pause) refuses(now time.Time) error {
	if !now.Before(p.until) {
		return nil
	}
	if p.cause == nil {
		return ErrBackingOff
	}
	return fmt.Errorf("%w: %w", ErrBackingOff, p.cause)
}
