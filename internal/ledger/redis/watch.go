package redis

import (
	"context"
	"sync"
	"time"

	"github.com/verdictproxy/verdict/internal/ledger"
)

const (
	// look is how often watchers learn what has happened.
	look = 100 * time.Millisecond
	// mostEvents is how many they learn of at once.
	mostEvents = 256
)

// A follower follows the events while somebody watches.
type follower struct {
	mu     sync.Mutex
	users  int
	cancel context.CancelFunc
	ended  chan struct{}
}

// Watch ends with ledger.ErrUnavailable where the server cannot be asked at its beginning. Later it goes on
// once the server answers again. A server that has lost its past tells from then on.
func (l *Ledger) Watch(ctx context.Context, f ledger.Filter, each func(c *ledger.Case, missed uint64) error) error {
	last, err := l.store.last(ctx)
	if err != nil {
		return unavailable(ctx, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.follow(last)
	defer l.unfollow()
	defer context.AfterFunc(l.closing, func() { cancel(ledger.ErrUnavailable) })()
	if err := l.watchers.Watch(ctx, f, each); err != ctx.Err() {
		return err
	}
	return context.Cause(ctx)
}

// follow begins to follow behind an event, unless that is done already.
func (l *Ledger) follow(last uint64) {
	f := &l.follower
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users++; f.users > 1 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	f.cancel, f.ended = cancel, ended
	go func() {
		defer close(ended)
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				last = l.tell(ctx, last)
			}
		}
	}()
}

func (l *Ledger) unfollow() {
	f := &l.follower
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users == 0 {
		f.cancel()
		<-f.ended
	}
}

// tell tells the watchers what has happened behind an event, and returns the last one.
func (l *Ledger) tell(ctx context.Context, last uint64) uint64 {
	for {
		events, newest, err := l.store.since(ctx, last, mostEvents)
		if err != nil {
			return last // the next look will do
		}
		if newest < last {
			return newest
		}
		for _, e := range events {
			if e.number > last+1 {
				l.watchers.Missed(e.number - last - 1)
			}
			last = e.number
			if c, err := decode("", e.encoded); err == nil {
				l.watchers.Tell(c)
			}
		}
		if len(events) < mostEvents {
			return last
		}
	}
}
