// Package redis is one ledger for any number of processes, kept by a Redis or Valkey server.
//
// # Entering
//
// What is entered waits in a bounded queue, and is brought to the server in batches by a goroutine of its
// own. While the server does not answer, it goes on waiting. A batch whose reply was lost is brought
// again: a case is known by its id, and is there once.
//
// # On the server
//
// A case is its protobuf message, so that processes of different versions keep each other's fields. It is
// changed only where it still is what the process has seen, so that nothing that another has written is
// lost. A stream tells of each change, for those who watch; it is shorter than the ledger. 10000 cases of
// 500 bytes take 12 MB of the server in all (Redis 7.0).
//
// # What the operator should know
//
//   - Cases survive a restart of the server as far as it saves them: set appendonly yes.
//   - An evicted key takes all cases with it: set maxmemory-policy noeviction.
//   - A fail-over may cost what the replica did not have yet: set min-replicas-to-write.
//   - Processes may be started with different sizes: the ledger then has the size of who enters.
//
// It is tested with Redis 6.2 and 7, and Valkey 9. The user needs the commands EVAL, EVALSHA, TYPE, HGET,
// HSET, HDEL, ZADD, ZREM, ZCARD, ZSCORE, ZPOPMIN, ZREVRANGE, ZREVRANGEBYSCORE, XADD, XRANGE, XREVRANGE and
// PING, on keys that begin with Options.Prefix.
package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
)

// Defaults of Options.
const (
	DefaultPrefix  = "verdict:"
	DefaultTimeout = 2 * time.Second
)

// leastQueue lets cases wait for their turn also where the ledger is small.
const leastQueue = 1000

// Options of New. Only Server has no default.
type Options struct {
	// Server is where the server is.
	Server conn.Options
	// Prefix begins every key, so that fleets that must not share a ledger can share a server.
	Prefix string
	// Size is how many cases the server keeps: ledger.DefaultSize if it is <= 0. As many, and leastQueue at
	// least, may wait here to be brought there.
	Size int
	// Timeout is how long a call waits for its reply: DefaultTimeout if it is 0.
	Timeout time.Duration
	// Now is time.Now if it is nil.
	Now func() time.Time
	// Logger gets a line when the server does not answer, one when it does again, and one when cases are
	// lost because too many wait; nil for none.
	Logger *slog.Logger

	keep int // events: keptEvents if it is 0
}

// Ledger is a ledger.Ledger on a Redis server.
type Ledger struct {
	store    *store
	queue    *queue
	watchers ledger.Watchers
	now      func() time.Time
	log      *slog.Logger
	follower follower

	open, lost atomic.Uint64 // as the server last said
	down       atomic.Bool
	losing     atomic.Bool // a line has said so
	closing    context.Context
	close      context.CancelFunc
	running    sync.WaitGroup
}

var _ ledger.Ledger = (*Ledger)(nil)

// New opens a ledger. An error is options that cannot be used; a server that is not there is none.
func New(o Options) (*Ledger, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Size <= 0 {
		o.Size = ledger.DefaultSize
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.keep == 0 {
		o.keep = keptEvents
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := conn.New(o.Server, o.Timeout)
	if err != nil {
		return nil, err
	}
	l := &Ledger{
		store: newStore(c, o.Prefix, o.Size, o.keep), queue: newQueue(max(o.Size, leastQueue)),
		now: o.Now, log: o.Logger,
	}
	l.closing, l.close = context.WithCancel(context.Background())
	l.running.Go(l.write)
	return l, nil
}

// Enter is documented at ledger.Ledger, as are the others.
func (l *Ledger) Enter(e ledger.Entry) {
	if l.queue.add(e.Case(l.now())) && l.losing.CompareAndSwap(false, true) {
		l.log.Error("uncertain outcomes are lost: more of them wait for the ledger's Redis than the ledger has room for")
	}
}

func (l *Ledger) Get(ctx context.Context, caseID string) (*ledger.Case, error) {
	// First here, then there: on its way from here to there it is in both.
	own := l.queue.get(caseID)
	encoded, err := l.store.get(ctx, caseID)
	switch {
	case err != nil && own != nil:
		return own, nil
	case err != nil:
		return nil, unavailable(ctx, err)
	case encoded == "" && own != nil:
		return own, nil
	case encoded == "":
		return nil, ledger.ErrNotFound
	}
	c, err := decode(caseID, encoded)
	switch {
	case own == nil:
		return c, err
	case err != nil: // it gives way to what is entered
		return own, nil
	}
	return ledger.Merge(c, own), nil
}

// mostTries bounds how often a change is tried that others come before.
const mostTries = 50

func (l *Ledger) Resolve(ctx context.Context, caseID string, state retryv1.CaseState, note string) (*ledger.Case, error) {
	own := l.queue.get(caseID)
	there, err := l.store.get(ctx, caseID)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	for range mostTries {
		c := own
		if there != "" {
			if c, err = decode(caseID, there); err != nil {
				return nil, err
			}
		}
		if c == nil {
			return nil, ledger.ErrNotFound
		}
		c = ledger.Resolved(c, state, note, l.now())
		outcomes, _, _, err := l.store.put(ctx, 0, change{id: caseID, seen: there, to: c, resolves: true})
		if err != nil {
			return nil, unavailable(ctx, err)
		}
		if outcomes[0].done {
			return c, nil
		}
		there = outcomes[0].there
	}
	return nil, fmt.Errorf("%w: others changed the case %d times meanwhile", ledger.ErrUnavailable, mostTries)
}

// stretch is how many cases are asked for at once.
const stretch = 256

func (l *Ledger) List(ctx context.Context, f ledger.Filter, before uint64, limit int) (ledger.Page, error) {
	var page ledger.Page
	last := uint64(0)
	for {
		cases, lost, err := l.store.list(ctx, before, stretch)
		if err != nil {
			return ledger.Page{}, unavailable(ctx, err)
		}
		page.Lost = lost
		for _, found := range cases {
			before = found.number
			c, err := decode(found.id, found.encoded)
			if err != nil || !f.Match(c) {
				continue
			}
			if len(page.Cases) == limit {
				page.Next = last
				return page, nil
			}
			page.Cases = append(page.Cases, c)
			last = found.number
		}
		if len(cases) < stretch || before <= 1 {
			return page, nil
		}
	}
}

// Count says what the server last said, which is at most a second ago while it answers. Cases lost on
// their way to it are counted before it knows of them.
func (l *Ledger) Count() (open int, lost uint64) {
	_, _, untold := l.queue.count()
	return int(l.open.Load()), l.lost.Load() + untold
}

// Waiting is how many cases wait to be brought to the server, and how many were lost here because too
// many did.
func (l *Ledger) Waiting() (waiting int, lost uint64) {
	waiting, lost, _ = l.queue.count()
	return waiting, lost
}

// Connected is false while the server does not answer.
func (l *Ledger) Connected() bool { return !l.down.Load() }

// Close brings what waits to the server, for about closeWithin at most, and ends every Watch. An error is
// cases that are lost.
func (l *Ledger) Close() error {
	l.close()
	l.running.Wait()
	l.store.conn.Close()
	if waiting, _, _ := l.queue.count(); waiting > 0 {
		err := fmt.Errorf("%d uncertain outcomes could not be brought to the ledger's Redis; the log has them", waiting)
		l.log.Error(err.Error())
		return err
	}
	return nil
}

// unavailable is the error of a call that the server did not answer, or answered with an error.
func unavailable(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return ended
	}
	return fmt.Errorf("%w: Redis: %v", ledger.ErrUnavailable, err)
}
