// Package redis is one budget for any number of processes, kept by a Redis or Valkey server: the
// payment law holds over all of them, dated by the server's clock.
//
// # Leases
//
// Deposits are added up here and flushed in batches, dated by a lower bound of the server's time.
// Tokens come in small leases that follow the demand, each with the instant at which what paid for it
// expires; it is spent only while an upper bound of the server's time lies before that. What is not
// needed goes back. A call whose reply is lost is repeated with the same sequence number and asks for
// nothing; a lease that may have been in the lost reply counts as spent.
//
// # Cut off
//
// While the server does not answer, deposits that were not flushed pay for grants here. They are either
// flushed or spent here, never both, and there is no reserve here; so the law holds for the sum.
//
// # Where the law needs the operator
//
//   - Two masters at once may spend the reserve twice: set min-replicas-to-write.
//   - An evicted key forgets what was spent: set maxmemory-policy noeviction. It is checked on connecting.
//   - When the server's clock steps, the processes that knew it before give up the reserve until an
//     interval has passed. One that began after the step cannot know. Where none of the others has met the
//     account in between, the reserve may be spent once more, or what was earned lives longer by the step.
//     Steps below a tenth of the interval may not be seen while a message is under way.
//   - A process must not be moved or frozen together with its monotonic clock (a suspended virtual
//     machine) for longer than a lease lives.
//
// It is tested with Redis 6.2 and 7, and Valkey 9. The user needs the commands EVAL, EVALSHA, TIME, INFO,
// TYPE, GET, SET, DEL, HGETALL, HSET, HDEL, PEXPIRE and PING, on keys that begin with Options.Prefix.
package redis

import (
	"cmp"
	"errors"
	"hash/fnv"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/internal/accounts"
	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
)

// Budget is a budget.Budget on a Redis server. Its upstreams are bounded as those of package memory
// are: when there are MaxUpstreams accounts, one that has been idle here for an interval and 1/50 makes
// room for a newcomer; when none is idle, newcomers share one account, named "", which has no reserve.
// An evicted account's money stays on the server, where it dies in its own time.
type Budget struct {
	clock    func() int64
	log      *budget.EventLog
	hooks    hooks
	wait     int64
	flush    int64
	prefix   string
	process  string
	accounts accounts.Set[*account]

	server   server
	timeline timeline
	down     atomic.Bool
	running  sync.WaitGroup
	done     chan struct{}
	loop     sync.WaitGroup
}

var _ budget.Budget = (*Budget)(nil)

// server is what a Budget needs of the connection. exec sends a request once and waits for its reply,
// for a bounded time.
type server interface {
	exec(keys []string, r *request) (*reply, error)
	close()
}

// hooks are told what happens; see Options.
type hooks struct {
	log      *slog.Logger
	calls    func(d time.Duration, err error)
	locally  func()
	upOrDown func(up bool)
}

func (h hooks) local() {
	if h.locally != nil {
		h.locally()
	}
}

// New opens a budget. An error is options that cannot be used; a server that is not there is none:
// the budget then begins cut off. settings tells those of an upstream, as in package memory.
func New(settings func(upstream string) budget.Settings, o Options) (*Budget, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	c, err := newClient(&o)
	if err != nil {
		return nil, err
	}
	return open(settings, o, c), nil
}

func open(settings func(upstream string) budget.Settings, o Options, s server) *Budget {
	b := &Budget{
		clock: o.Clock, log: o.Log, prefix: o.Prefix, process: o.process,
		hooks: hooks{log: o.Logger, calls: o.OnCall, locally: o.OnLocalGrant, upOrDown: o.OnConnected},
		wait:  int64(o.Wait), flush: int64(o.Flush),
		server: s, done: make(chan struct{}),
	}
	b.accounts.Init(settings, o.Clock, o.MaxUpstreams, b.open)
	b.shared().probe()
	b.loop.Go(b.tick)
	return b
}

func (b *Budget) open(upstream string, s budget.Settings, serial int, now int64) *account {
	h := fnv.New32a()
	h.Write([]byte(upstream))
	shard := int(h.Sum32() % shards)
	// All keys of a shard have one hash tag. The name is escaped, for a brace would end the tag.
	tag := b.prefix + "{" + strconv.Itoa(shard) + "}:"
	name := url.QueryEscape(upstream)
	a := &account{
		budget: b, clock: b.clock, upstream: upstream, shard: shard, serial: serial, wake: make(chan struct{}),
		keys:    []string{tag + "account:" + name, tag + "epoch", tag + "sequence:" + b.process + ":" + name},
		touched: now,
	}
	a.core = a.adopt(s)
	return a
}

func (b *Budget) shared() *account { return b.accounts.Shared() }

// Account is documented at budget.Budget.
func (b *Budget) Account(upstream string) budget.Account {
	return b.accounts.Handle(upstream, func(a *account) budget.Account { return a })
}

// tick flushes, or looks whether the server is there again.
func (b *Budget) tick() {
	ticker := time.NewTicker(time.Duration(b.flush))
	defer ticker.Stop()
	const probes = 250 * time.Millisecond
	var probed time.Time
	for {
		select {
		case <-b.done:
			return
		case <-ticker.C:
		}
		if b.down.Load() {
			if time.Since(probed) >= probes {
				b.shared().probe()
				probed = time.Now()
			}
			continue
		}
		now := b.clock()
		for _, a := range b.accounts.All() {
			a.tick(now)
		}
	}
}

// outcome of a call. The first failure cuts the process off, the first success ends that.
func (b *Budget) outcome(d time.Duration, err error) {
	if b.hooks.calls != nil {
		b.hooks.calls(d, err)
	}
	if errors.Is(err, conn.ErrClosed) || !b.down.CompareAndSwap(err == nil, err != nil) {
		return
	}
	if b.hooks.upOrDown != nil {
		b.hooks.upOrDown(err == nil)
	}
	if b.hooks.log == nil {
		return
	}
	if err != nil {
		b.hooks.log.Warn("the budget's Redis does not answer: retries are paid by this process's own first attempts alone", "error", err)
	} else {
		b.hooks.log.Info("the budget's Redis answers again")
	}
}

// Reload puts in force what settings says now, for all accounts, and refills none of them. Where the
// interval changes, what this process holds of the account is dropped, and so is, by the server, what
// the account has earned; its reserve counts as just spent.
func (b *Budget) Reload() { b.accounts.Reload() }

// List is documented at budget.Budget.
func (b *Budget) List() []budget.State {
	all := b.accounts.All()
	var asked sync.WaitGroup
	for _, a := range all {
		asked.Go(func() { a.refresh(b.wait) })
	}
	asked.Wait()
	var list []budget.State
	for _, a := range all {
		s, ok := a.look()
		if ok && (a != b.shared() || s.Firsts+s.Retries+s.Refused > 0) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(x, y budget.State) int { return cmp.Compare(x.Upstream, y.Upstream) })
	return list
}

// Close is documented at budget.Budget. What is held here goes back to the server, if that answers in
// time. It returns nil, and leaves the event log's writer open.
func (b *Budget) Close() error {
	all, first := b.accounts.Close()
	if !first {
		return nil
	}
	close(b.done)
	b.loop.Wait()
	for _, a := range all {
		a.Retire()
	}
	b.running.Wait()
	for _, a := range all {
		a.finish()
	}
	b.running.Wait()
	b.server.close()
	return nil
}
