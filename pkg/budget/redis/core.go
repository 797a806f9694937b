package redis

import (
	"cmp"
	"slices"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// A core is what one process holds of one account, and decides about it. It has no lock, no clock and
// no connection: time is an argument (monotonic nanoseconds), requests come out, replies go in.
//
// A milli-token that is deposited here is in exactly one place: pending, where it can pay for a local
// grant; in flight, where it cannot; or gone to the server. So whatever becomes of the server, it pays
// once. A token that was leased is in the pool, granted, or on its way back.
type core struct {
	settings budget.Settings
	width    int64 // ns
	hold     int64 // ns for which unused tokens are kept at least: the flush period

	pending  []coin // oldest first
	pool     []lot  // earned before reserve, each by deadline
	inFlight *request
	failed   bool // inFlight's outcome is not known
	sequence uint64

	epoch  string
	epochs uint8 // how often epoch has changed

	left struct { // what the latest reply left on the server
		milli, reserve, at int64
		known              bool
	}
	demand struct{ end, now, before int64 } // tokens granted in the period of hold that ends then, and in the one before
}

// A coin is what was deposited in one bucket's width, dated by its first deposit.
type coin struct{ at, milli int64 }

// maxMilli bounds what is deposited here or held there; what goes beyond is lost.
const maxMilli = 1_000_000_000_000_000

// maxWant bounds a lease.
const maxWant = 1_000_000

func newCore(s budget.Settings, hold int64) core {
	return core{settings: s, width: int64(s.Interval) / budget.Buckets, hold: hold}
}

func (c *core) interval() int64 { return int64(c.settings.Interval) }

func (c *core) deposit(now, milli int64) {
	if milli <= 0 {
		return
	}
	c.expire(now)
	milli = min(milli, maxMilli-c.pendingMilli())
	if n := len(c.pending); n > 0 && now < c.pending[n-1].at+c.width {
		c.pending[n-1].milli += milli
		return
	}
	c.pending = append(c.pending, coin{now, milli})
}

func (c *core) pendingMilli() (sum int64) {
	for _, p := range c.pending {
		sum += p.milli
	}
	return sum
}

// expire drops what is dead, but keeps reserve tokens that nobody spent: they can still go back.
func (c *core) expire(now int64) {
	dead := 0
	for dead < len(c.pending) && c.pending[dead].at+c.interval() <= now {
		dead++
	}
	if dead > 0 {
		c.pending = slices.Delete(c.pending, 0, dead)
	}
	if len(c.pool) > 0 {
		c.pool = slices.DeleteFunc(c.pool, func(l lot) bool {
			return l.tokens == 0 || l.deadline <= now && (l.source == budget.SourceEarned || l.deadline+c.interval() <= now)
		})
	}
}

// spend takes a leased token; nil if there is none. It is not to be kept.
func (c *core) spend(now int64) *token {
	for i := range c.pool {
		l := &c.pool[i]
		if l.tokens > 0 && now < l.deadline {
			l.tokens--
			c.count(now)
			return &l.token
		}
	}
	return nil
}

// spendLocal takes a token of deposits that were not flushed, the oldest first; nil if there is none.
func (c *core) spendLocal(now int64) *token {
	c.expire(now)
	if c.pendingMilli() < budget.Token {
		return nil
	}
	t := &token{source: budget.SourceEarned, local: true, bucket: c.pending[0].at, deadline: c.pending[0].at + c.interval()}
	due := int64(budget.Token)
	for due > 0 {
		paid := min(c.pending[0].milli, due)
		c.pending[0].milli -= paid
		due -= paid
		if c.pending[0].milli == 0 {
			c.pending = slices.Delete(c.pending, 0, 1)
		}
	}
	c.count(now)
	return t
}

func (c *core) count(now int64) {
	c.turn(now)
	c.demand.now++
}

func (c *core) turn(now int64) {
	if now < c.demand.end {
		return
	}
	c.demand.before, c.demand.now = c.demand.now, 0
	if now >= c.demand.end+c.hold {
		c.demand.before = 0
	}
	c.demand.end = (now/c.hold + 1) * c.hold
}

// recent is how many tokens were granted in this period and the one before.
func (c *core) recent(now int64) int64 {
	c.turn(now)
	return c.demand.now + c.demand.before
}

// giveBack takes a token whose deadline has not passed.
func (c *core) giveBack(t token) {
	if t.local {
		i, _ := slices.BinarySearchFunc(c.pending, t.bucket, func(p coin, at int64) int { return cmp.Compare(p.at, at) })
		if i < len(c.pending) && c.pending[i].at == t.bucket {
			c.pending[i].milli += budget.Token
			return
		}
		c.pending = slices.Insert(c.pending, i, coin{t.bucket, budget.Token})
		return
	}
	c.put(lot{t, 1})
}

func (c *core) put(l lot) {
	i := 0
	for i < len(c.pool) && (c.pool[i].source < l.source || c.pool[i].source == l.source && c.pool[i].deadline < l.deadline) {
		i++
	}
	if i < len(c.pool) && c.pool[i].token == l.token {
		c.pool[i].tokens += l.tokens
		return
	}
	c.pool = slices.Insert(c.pool, i, l)
}

func (c *core) pooled(now int64) (earned, reserve int64) {
	for _, l := range c.pool {
		switch {
		case now >= l.deadline:
		case l.source == budget.SourceEarned:
			earned += l.tokens
		default:
			reserve += l.tokens
		}
	}
	return earned, reserve
}

// holds is what can be spent, here and, as the latest reply said, on the server.
func (c *core) holds(now int64) (milli, reserve int64) {
	c.expire(now)
	earned, reserve := c.pooled(now)
	milli = c.pendingMilli() + earned*budget.Token
	if r := c.inFlight; r != nil {
		for _, d := range r.deposits {
			milli += d.milli
		}
		for _, l := range r.returns {
			if l.source == budget.SourceEarned {
				milli += l.tokens * budget.Token
			} else {
				reserve += l.tokens
			}
		}
	}
	if c.left.known && now < c.left.at+c.interval() {
		milli, reserve = milli+c.left.milli, reserve+c.left.reserve
	}
	return milli, reserve
}
