package ledger

import "context"

// watchBuffer is how many cases a watcher may be behind.
const watchBuffer = 256

type watcher struct {
	filter Filter
	cases  chan *Case
	missed uint64 // under Ledger.mu
}

// tell hands a case to all whom it concerns, and waits for none; l.mu is held.
func (l *Ledger) tell(c *Case) {
	for w := range l.watchers {
		if !w.filter.Match(c) {
			continue
		}
		select {
		case w.cases <- c:
		default:
			w.missed++
		}
	}
}

// Watch calls each for every case that matches when it is entered or resolved, from now on, with the
// number of those that were missed until then because each was too slow. It returns each's error, or
// ctx's when that ends.
func (l *Ledger) Watch(ctx context.Context, f Filter, each func(c *Case, missed uint64) error) error {
	w := &watcher{filter: f, cases: make(chan *Case, watchBuffer)}
	l.mu.Lock()
	l.watchers[w] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.watchers, w)
		l.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-w.cases:
			l.mu.Lock()
			missed := w.missed
			l.mu.Unlock()
			if err := each(c, missed); err != nil {
				return err
			}
		}
	}
}
