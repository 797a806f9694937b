package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// account is what this process holds of one upstream's account: a core under a lock, at most one call
// to the server at a time, and the decisions that wait for its reply.
type account struct {
	budget   *Budget
	clock    func() int64
	upstream string
	shard    int
	keys     []string
	serial   int // makes grant ids unique when an upstream gets its second account

	mu       sync.Mutex
	gone     bool // evicted, or the budget is closed
	settings budget.Settings
	never    bool // of settings
	free     bool // Unlimited
	ratio    int64
	core     core
	pace     pace
	calling  bool
	sentAt   int64         // of the call under way
	calls    int64         // how many calls have ended
	wake     chan struct{} // closed when a call ends
	waiting  int64

	lastID     uint64
	returned   map[uint64]int64 // grants that came back, until their deadline
	window     window
	emptyUntil int64
	touched    int64 // latest call that was not a mere look
}

func (a *account) lock() bool {
	a.mu.Lock()
	if a.gone {
		a.mu.Unlock()
		return false
	}
	return true
}

// again is where the calls of an evicted account go.
func (a *account) again() newcomer { return newcomer{a.budget, a.upstream} }

func (a *account) Deposit(n int) {
	if n <= 0 {
		return
	}
	if !a.lock() {
		a.again().Deposit(n)
		return
	}
	a.deposit(n, a.ratio)
	a.mu.Unlock()
}

// mostFirsts keeps the product with a ratio from overflowing.
const mostFirsts = maxMilli / budget.Token

func (a *account) deposit(n int, ratio int64) {
	now := a.clock()
	a.touched = now
	milli := min(int64(n), mostFirsts) * ratio
	a.window.at(now).firsts += min(int64(n), mostFirsts)
	if a.budget.log != nil {
		a.record(now, budget.Event{Kind: budget.KindDeposit, Firsts: n, Milli: milli})
	}
	a.core.deposit(now, milli)
}

func (a *account) TryWithdraw(ctx context.Context) (g budget.Grant, ok bool) {
	if !a.lock() {
		return a.again().TryWithdraw(ctx)
	}
	ok = a.withdraw(ctx, &g)
	a.mu.Unlock()
	return g, ok
}

// withdraw takes a leased token; if there is none and the server may have one, it waits a moment for a
// lease; if none comes, what was deposited here and not flushed pays. The grant goes to g, since most
// of the time that is left here would be spent on copying it.
func (a *account) withdraw(ctx context.Context, g *budget.Grant) bool {
	now := a.clock()
	a.touched = now
	if t := a.core.spend(now); t != nil {
		return a.grant(now, t, g)
	}
	if a.free {
		return a.grant(now, &token{source: budget.SourceUnlimited, deadline: now + a.core.interval()}, g)
	}
	if a.never {
		return a.refuse(now)
	}
	for deadline := now + a.budget.wait; a.worthWaiting(now, deadline); {
		if !a.await(ctx, time.Duration(deadline-now), 1) {
			deadline = now
		}
		if a.gone {
			return false
		}
		now = a.clock()
		if t := a.core.spend(now); t != nil {
			return a.grant(now, t, g)
		}
	}
	if t := a.core.spendLocal(now); t != nil {
		a.budget.hooks.local()
		return a.grant(now, t, g)
	}
	return a.refuse(now)
}

func (a *account) worthWaiting(now, deadline int64) bool {
	if now >= deadline || a.budget.down.Load() {
		return false
	}
	if a.calling {
		return now < a.sentAt+a.budget.wait // else it is late, and nobody waits for it any more
	}
	return a.core.worthAsking(now) && a.pace.at() < deadline
}

// await lets go of the lock until a call has ended; false when it gave up before that. tokens is how
// many the caller hopes for.
func (a *account) await(ctx context.Context, d time.Duration, tokens int64) bool {
	a.waiting += tokens
	a.call(a.clock())
	wake := a.wake
	a.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	ended := true
	select {
	case <-wake:
	case <-timer.C:
		ended = false
	case <-ctx.Done():
		ended = false
	}
	a.mu.Lock()
	a.waiting -= tokens
	return ended
}

// call begins a call, unless one is under way, the pace forbids it, or there is no server.
func (a *account) call(now int64) {
	if a.calling || a.budget.down.Load() || !a.pace.take(now) {
		return
	}
	r := a.core.plan(now, a.budget.timeline.view(a.shard), a.waiting, false)
	if r == nil {
		return
	}
	a.calling, a.sentAt = true, now
	a.budget.running.Go(func() { a.exchange(r) })
}

// exchange is one call: a request, and its reply or failure.
func (a *account) exchange(r *request) {
	b := a.budget
	sent := a.clock()
	reply, err := b.server.exec(a.keys, r)
	recv := a.clock()
	a.mu.Lock()
	if err == nil {
		a.core.onReply(sent, recv, reply, b.timeline.learn(a.shard, r.view, sent, recv, reply))
	} else {
		a.core.onFailure()
	}
	b.outcome(time.Duration(recv-sent), err)
	a.calling = false
	a.calls++
	close(a.wake)
	a.wake = make(chan struct{})
	if !a.gone && a.core.lacks(recv, a.waiting) {
		a.call(recv)
	}
	a.mu.Unlock()
}

// tick is called once in a flush period.
func (a *account) tick(now int64) {
	if !a.lock() {
		return
	}
	defer a.mu.Unlock()
	for id, deadline := range a.returned {
		if deadline <= now {
			delete(a.returned, id)
		}
	}
	if a.waiting > 0 || a.core.needsFlush(now) {
		a.call(now)
	}
}

// probe asks whether the server is there, and brings nothing.
func (a *account) probe() {
	b := a.budget
	r := &request{view: b.timeline.view(a.shard), settings: a.core.settings, planned: a.clock()}
	sent := a.clock()
	reply, err := b.server.exec(a.keys, r)
	recv := a.clock()
	if err == nil {
		b.timeline.learn(a.shard, r.view, sent, recv, reply)
	}
	b.outcome(time.Duration(recv-sent), err)
}

// A grant's Bucket is where its token came from, its At the monotonic instant at which that expires.
// The lowest bit of its ID tells a local token, the next eight the epoch of the lease.
const idShift = 9

func (a *account) grant(now int64, t *token, g *budget.Grant) bool {
	a.lastID++
	id := a.lastID<<idShift | uint64(t.epoch)<<1
	if t.local {
		id |= 1
	}
	g.Issuer, g.ID, g.Source, g.Bucket, g.At = a, id, t.source, t.bucket, t.deadline
	a.window.at(now).retries++
	if a.budget.log != nil && a.recordToken(now, budget.KindGrant, *g) != nil {
		*g = budget.Grant{}
		return false
	}
	return true
}

func (a *account) refuse(now int64) bool {
	a.emptyUntil = now + int64(budget.EmptyFor)
	a.window.at(now).refused++
	return false
}

func (a *account) Return(g budget.Grant) {
	if shared := a.budget.shared; a != shared && g.Issuer == any(shared) {
		a = shared // granted when this upstream was a newcomer
	}
	if g.Issuer != any(a) || !a.lock() {
		return // of an evicted account everything has expired
	}
	defer a.mu.Unlock()
	now := a.clock()
	a.touched = now
	if _, twice := a.returned[g.ID]; twice || g.ID == 0 || g.ID>>idShift > a.lastID || g.At <= now {
		return
	}
	if a.returned == nil {
		a.returned = make(map[uint64]int64)
	}
	a.returned[g.ID] = g.At
	a.window.at(now).retries--
	if a.budget.log != nil {
		_ = a.recordToken(now, budget.KindReturn, g)
	}
	if g.Source != budget.SourceUnlimited {
		a.core.giveBack(token{source: g.Source, local: g.ID&1 == 1, bucket: g.Bucket, deadline: g.At, epoch: uint8(g.ID >> 1)})
	}
}

func (a *account) Empty() bool {
	if !a.lock() {
		return a.again().Empty()
	}
	defer a.mu.Unlock()
	return a.empty()
}

func (a *account) empty() bool {
	return a.never || !a.free && a.clock() < a.emptyUntil
}

func (a *account) State() budget.State {
	a.refresh(a.budget.wait)
	if s, ok := a.look(); ok {
		return s
	}
	return a.again().State()
}

// refresh waits until a call that began after this one has ended, for at most d.
func (a *account) refresh(d int64) {
	if !a.lock() {
		return
	}
	defer a.mu.Unlock()
	if a.never || a.free {
		return
	}
	enough := a.calls + 1
	if a.calling {
		enough++
	}
	deadline := a.clock() + d
	for !a.gone && a.calls < enough && !a.budget.down.Load() {
		left := deadline - a.clock()
		if left <= 0 || !a.await(context.Background(), time.Duration(left), 0) {
			return
		}
	}
}

// look is what is known without asking.
func (a *account) look() (budget.State, bool) {
	if !a.lock() {
		return budget.State{}, false
	}
	defer a.mu.Unlock()
	now := a.clock()
	sum := a.window.sum(now)
	s := budget.State{Upstream: a.upstream, Settings: a.settings, Firsts: sum.firsts, Retries: sum.retries, Refused: sum.refused}
	if a.never || a.free {
		return s, true
	}
	s.EarnedMilli, s.ReserveLeft = a.core.holds(now)
	return s, true
}

// retire makes handles look elsewhere from now on.
func (a *account) retire() {
	a.mu.Lock()
	a.gone = true
	a.mu.Unlock()
}

// retireIdle retires an account that is idle; else it says when it will be, left alone.
func (a *account) retireIdle(now int64) (retired bool, idleAt int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	idleAt = a.touched + a.core.interval() + a.core.width
	a.gone = a.gone || now >= idleAt && !a.calling && a.waiting == 0
	return a.gone, idleAt
}

// record writes an event with what is known of the server's time.
func (a *account) record(now int64, e budget.Event) error {
	e.Mono, e.Account = now, a.upstream
	if v := a.budget.timeline.view(a.shard); v.anchor.known() {
		e.RedisLow, e.RedisHigh = v.anchor.low(now), v.anchor.high(now)
	}
	return a.budget.log.Write(e)
}

func (a *account) recordToken(now int64, kind budget.Kind, g budget.Grant) error {
	return a.record(now, budget.Event{
		Kind: kind, Milli: budget.Token, Source: g.Source, Grant: fmt.Sprintf("%d.%d", a.serial, g.ID>>idShift),
	})
}

// finish brings back what is left when the account is gone.
func (a *account) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.budget.down.Load() || len(a.core.pending)+len(a.core.pool) == 0 {
		return
	}
	if r := a.core.plan(a.clock(), a.budget.timeline.view(a.shard), 0, true); r != nil && r.sequence > 0 {
		a.budget.running.Go(func() { a.exchange(r) })
	}
}

func (a *account) change(s budget.Settings) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.settings == s {
		return
	}
	next := a.adopt(s)
	if next.width == a.core.width {
		a.core.settings = next.settings
		return
	}
	next.sequence = a.core.sequence + 1
	next.epochs = a.core.epochs + 1 // older grants do not come back
	a.core = next
}

// adopt puts settings in force, and returns the core that they would begin with.
func (a *account) adopt(s budget.Settings) core {
	a.settings, a.never, a.free, a.ratio = s, s.IsNever(), s.IsUnlimited(), ratioOf(s)
	if a.never || a.free {
		s = budget.Settings{Interval: budget.DefaultSettings().Interval}
	}
	c := newCore(s, a.budget.flush)
	a.window = window{width: c.width}
	return c
}

// ratioOf is what a first attempt earns, in milli-tokens.
func ratioOf(s budget.Settings) int64 {
	if s.IsNever() || s.IsUnlimited() {
		return 0
	}
	return int64(s.Ratio)
}
