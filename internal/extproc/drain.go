package extproc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// Drain tells the streams that the process is shutting down. Its zero value is not ready; see
// NewDrain.
type Drain struct {
	once  sync.Once
	begun chan struct{}
	until time.Time // written before begun is closed
	waits atomic.Int64
}

// NewDrain returns a Drain that has not begun.
func NewDrain() *Drain { return &Drain{begun: make(chan struct{})} }

// Begin starts the draining: no new wait begins, and a wait that does not end within grace is given
// up. Only the first call counts.
func (d *Drain) Begin(grace time.Duration) {
	d.once.Do(func() {
		d.until = time.Now().Add(grace)
		close(d.begun)
	})
}

// State says whether a wait may begin now.
func (d *Drain) State() decision.RuntimeState {
	select {
	case <-d.begun:
		return decision.RuntimeDraining
	default:
		return decision.RuntimeServing
	}
}

// hold counts an answer that is held, until the returned function is called: when the wait is over
// and what came of it was said.
func (d *Drain) hold() func() {
	d.waits.Add(1)
	return func() { d.waits.Add(-1) }
}

type waitEnd uint8

const (
	waitCancelled waitEnd = iota // the stream has ended: nobody is left to be told
	waitDrained                  // the process ends before the wait would
	waitOver
)

// wait holds the caller for the given time. A wait that ends within the grace of a draining runs on.
func (d *Drain) wait(ctx context.Context, wait time.Duration) waitEnd {
	end := time.Now().Add(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	begun := d.begun
	for {
		select {
		case <-ctx.Done():
			return waitCancelled
		case <-begun:
			if end.After(d.until) {
				return waitDrained
			}
			begun = nil
		case <-timer.C:
			if ctx.Err() != nil {
				return waitCancelled
			}
			return waitOver
		}
	}
}

// AwaitIdle returns once no answer is held, after least at the earliest and most at the latest.
func (d *Drain) AwaitIdle(least, most time.Duration) {
	time.Sleep(least)
	for end := time.Now().Add(most - least); d.waits.Load() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// Waiting is how many answers are held now.
func (d *Drain) Waiting() int64 { return d.waits.Load() }
