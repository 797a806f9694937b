package ledger

import (
	"context"
	"sync"
)

// WatchBuffer is how many cases a watcher may be behind.
const WatchBuffer = 256

// Watchers are those who watch one ledger in this process. It is ready to use as it is, and safe for
// concurrent use.
type Watchers struct {
	mu  sync.Mutex
	all map[*watcher]struct{}
}

type watcher struct {
	filter Filter
	cases  chan *Case
	missed uint64 // under Watchers.mu
}

// Tell hands a case to all whom it concerns, and waits for none.
func (w *Watchers) Tell(c *Case) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		if !one.filter.Match(c) {
			continue
		}
		select {
		case one.cases <- c:
		default:
			one.missed++
		}
	}
}

// Missed adds cases that nobody was told of.
func (w *Watchers) Missed(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		one.missed += n
	}
}

// Len is how many there are.
func (w *Watchers) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// Watch is that of Ledger.
func (w *Watchers) Watch(ctx context.Context, f Filter, each func(c *Case, missed uint64) error) error {
	one := &watcher{filter: f, cases: make(chan *Case, WatchBuffer)}
	w.mu.Lock()
	if w.all == nil {
		w.all = map[*watcher]struct{}{}
	}
	w.all[one] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.all, one)
		w.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-one.cases:
			w.mu.Lock()
			missed := one.missed
			w.mu.Unlock()
			if err := each(c, missed); err != nil {
				return err
			}
		}
	}
}
