package extproc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verdictproxy/verdict/pkg/decision"
)

func TestDrainWait(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		name                 string
		wait                 time.Duration
		cancel, drain, grace time.Duration // after which it happens; below 0 is never
		want                 waitEnd
		took                 time.Duration
	}{
		{"nothing happens", second, -1, -1, 0, waitOver, second},
		{"no wait at all", 0, -1, -1, 0, waitOver, 0},
		{"cancelled", second, second / 2, -1, 0, waitCancelled, second / 2},
		{"cancelled before", second, 0, -1, 0, waitCancelled, 0},
		{"drained, fits", second, -1, second / 2, second / 2, waitOver, second},
		{"drained, does not fit", second, -1, second / 2, second/2 - 1, waitDrained, second / 2},
		{"drained before, fits", second, -1, 0, second, waitOver, second},
		{"drained before, does not fit", second, -1, 0, second - 1, waitDrained, 0},
		{"drained with no time at all", second, -1, second / 2, -second, waitDrained, second / 2},
		{"drained, then cancelled", second, second * 3 / 4, second / 2, second, waitCancelled, second * 3 / 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := NewDrain()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				at := func(after time.Duration, f func()) {
					switch {
					case after == 0:
						f()
					case after > 0:
						time.AfterFunc(after, f)
					}
				}
				at(test.cancel, cancel)
				at(test.drain, func() { d.Begin(test.grace) })
				begin := time.Now()
				if got := d.wait(ctx, test.wait); got != test.want {
					t.Errorf("ended by %d, want %d", got, test.want)
				}
				if took := time.Since(begin); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}

func TestDrainState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDrain()
		if d.State() != decision.RuntimeServing {
			t.Error("draining before it began")
		}
		d.Begin(time.Second)
		d.Begin(time.Hour) // only the first call counts
		if d.State() != decision.RuntimeDraining {
			t.Error("not draining")
		}
		if got := d.wait(t.Context(), 2*time.Second); got != waitDrained {
			t.Errorf("a wait beyond the grace ended by %d", got)
		}
	})
}

func TestAwaitIdle(t *testing.T) {
	for _, test := range []struct {
		name              string
		held              time.Duration
		least, most, took time.Duration
	}{
		{"nothing is held", 0, 2 * time.Second, 10 * time.Second, 2 * time.Second},
		{"held for a while", 5 * time.Second, 2 * time.Second, 10 * time.Second, 5 * time.Second},
		{"held for too long", time.Minute, 2 * time.Second, 10 * time.Second, 10 * time.Second},
		{"no time", time.Minute, 0, 0, 0},
		{"less than no time", time.Minute, -time.Second, -time.Second, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := NewDrain()
				if test.held > 0 {
					release := d.hold()
					time.AfterFunc(test.held, release)
					if d.Waiting() != 1 {
						t.Errorf("%d are waiting", d.Waiting())
					}
				}
				begin := time.Now()
				d.AwaitIdle(test.least, test.most)
				if took := time.Since(begin); took < test.took || took > test.took+10*time.Millisecond {
					t.Errorf("took %v, want %v", took, test.took)
				}
			})
		})
	}
}
