package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/internal/accounts"
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

	accounts.Door
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

// again is where the calls of an evicted account go.
func (a *account) again() accounts.Newcomer[*account] {
	return a.budget.accounts.Newcomer(a.upstream)
}

// Name and the other methods of accounts.Account are documented there.
func (a *account) Name() string { return a.upstream }

func (a *account) Deposit(n int) {
	if n <= 0 {
		return
	}
	if !a.Enter() {
		a.again().Deposit(n)
		return
	}
	a.Pay(n)
	a.Leave()
}

func (a *account) Pay(n int) { a.deposit(n, a.ratio) }

func (a *account) PayAs(n int, s budget.Settings) { a.deposit(n, ratioOf(s)) }

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
	if !a.Enter() {
		return a.again().TryWithdraw(ctx)
	}
	ok = a.withdraw(ctx, &g)
	a.Leave()
	return g, ok
}

func (a *account) Take(ctx context.Context) (g budget.Grant, ok bool) {
	ok = a.withdraw(ctx, &g)
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
		if a.Gone {
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
	if shared := a.budget.shared(); a != shared && g.Issuer == any(shared) {
		a = shared // granted when this upstream was a newcomer
	}
	if g.Issuer != any(a) || !a.Enter() {
		return // of an evicted account everything has expired
	}
	defer a.Leave()
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
	if !a.Enter() {
		return a.again().Empty()
	}
	defer a.Leave()
	return a.IsEmpty()
}

func (a *account) IsEmpty() bool {
	return a.never || !a.free && a.clock() < a.emptyUntil
}

func (a *account) State() budget.State {
	if s, ok := a.Look(); ok {
		return s
	}
	return a.again().State()
}

// Look asks the server first.
func (a *account) Look() (budget.State, bool) {
	a.refresh(a.budget.wait)
	return a.look()
}

// look is what is known without asking.
func (a *account) look() (budget.State, bool) {
	if !a.Enter() {
		return budget.State{}, false
	}
	defer a.Leave()
	now := a.clock()
	sum := a.window.sum(now)
	s := budget.State{Upstream: a.upstream, Settings: a.settings, Firsts: sum.firsts, Retries: sum.retries, Refused: sum.refused}
	if a.never || a.free {
		return s, true
	}
	s.EarnedMilli, s.ReserveLeft = a.core.holds(now)
	return s, true
}

func (a *account) RetireIdle(now int64) (retired bool, idleAt int64) {
	a.Hold()
	defer a.Leave()
	idleAt = a.touched + a.core.interval() + a.core.width
	a.Gone = a.Gone || now >= idleAt && !a.calling && a.waiting == 0
	return a.Gone, idleAt
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

func (a *account) Change(s budget.Settings) {
	a.Hold()
	defer a.Leave()
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
