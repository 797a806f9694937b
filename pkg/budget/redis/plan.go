package redis

import "github.com/verdictproxy/verdict/pkg/budget"

// lacks reports whether waiting decisions need more than is here, and the server may have it.
func (c *core) lacks(now, waiting int64) bool {
	earned, reserve := c.pooled(now)
	return waiting > earned+reserve && c.worthAsking(now)
}

// worthAsking reports whether the server may have a token, as far as is known: the answer that it has
// none is believed for budget.EmptyFor, unless what it had left and what is pending here make one.
func (c *core) worthAsking(now int64) bool {
	if !c.left.known || now-c.left.at >= int64(budget.EmptyFor) || c.left.reserve > 0 {
		return true
	}
	return c.left.milli+c.pendingMilli() >= budget.Token
}

// needsFlush reports whether a request would bring something, or fetch what is likely to be needed.
func (c *core) needsFlush(now int64) bool {
	if c.inFlight != nil {
		return c.failed
	}
	c.expire(now)
	if len(c.pending) > 0 {
		return true
	}
	recent := c.recent(now)
	var have, back int64
	for _, l := range c.pool {
		alive := now < l.deadline
		if alive {
			have += l.tokens
		}
		if l.epoch == c.epochs && (!alive || have > recent) {
			back += l.tokens
		}
	}
	return back > 0 || recent > have && c.worthAsking(now)
}

// plan makes the next request, or nil where one is under way already. waiting is how many decisions
// wait for a token; all means that everything goes back.
func (c *core) plan(now int64, v view, waiting int64, all bool) *request {
	c.expire(now)
	if c.inFlight != nil && !c.failed {
		return nil
	}
	if r := c.inFlight; r != nil {
		// The same again, with its sequence and its epoch; it asks for nothing.
		c.failed = false
		if r.epoch == v.epoch && !v.reset && now < r.made+c.interval() {
			again := *r
			again.anchor, again.want, again.planned = v.anchor, 0, now
			c.inFlight = &again
			return &again
		}
		c.inFlight = nil // dead, or for an epoch that has ended
	}
	r := &request{view: v, settings: c.settings, made: now, planned: now}
	needed := waiting + c.recent(now)
	if all {
		needed = 0
	}
	// One that cannot bring deposits asks for nothing either: the reserve is not to pay for what they can.
	if v.fresh(now, c.interval()) {
		earned, reserve := c.pooled(now)
		r.want = min(max(needed-earned-reserve, 0), maxWant)
		r.deposits = c.takePending(v)
		if c.epoch == v.epoch {
			r.returns = c.takeSurplus(now, needed)
		}
	}
	if len(r.deposits)+len(r.returns) > 0 {
		c.sequence++
		r.sequence = c.sequence
	}
	c.inFlight = r
	return r
}

func (c *core) takePending(v view) []deposit {
	us := c.width / 1000
	var out []deposit
	for _, p := range c.pending {
		b := (v.anchor.low(p.at) - stepMargin) / us
		if n := len(out); n > 0 && out[n-1].bucket == b {
			out[n-1].milli += p.milli
			continue
		}
		out = append(out, deposit{b, p.milli})
	}
	c.pending = c.pending[:0]
	return out
}

// takeSurplus takes from the pool what is not expected to be needed, the youngest first, and what
// cannot be spent any more but still counts as spent.
func (c *core) takeSurplus(now, keep int64) (out []lot) {
	for _, l := range c.pool {
		if now < l.deadline {
			keep -= l.tokens
		}
	}
	surplus := max(-keep, 0)
	for i := len(c.pool) - 1; i >= 0; i-- {
		l := &c.pool[i]
		if l.epoch != c.epochs {
			continue
		}
		n := l.tokens
		if now < l.deadline {
			n = min(n, surplus)
			surplus -= n
		}
		if n > 0 {
			l.tokens -= n
			back := *l
			back.tokens = n
			out = append(out, back)
		}
	}
	return out
}

// onReply takes in the reply to the request under way, which was sent at the monotonic instant sent.
// A lease that came while the server's clock stepped is not spent.
func (c *core) onReply(sent, recv int64, r *reply, stepped bool) {
	c.inFlight, c.failed = nil, false
	if r.epoch != c.epoch {
		c.epoch = r.epoch
		c.epochs++
	}
	c.left.milli, c.left.reserve, c.left.at, c.left.known = r.earned, r.reserve, recv, true
	if stepped {
		return
	}
	us := c.width / 1000
	for _, l := range r.lots {
		expiry := (l.bucket + budget.Buckets) * us
		if l.source == budget.SourceReserve {
			expiry = (l.bucket + 1) * us
		}
		lives := (expiry - r.time - stepMargin) * 1000
		l.deadline, l.epoch = sent+lives-drift(lives), c.epochs
		c.put(l)
	}
}

// onFailure notes that nobody knows what became of the request under way. What it brought is kept for
// the same request again; a lease that it may have got counts as spent.
func (c *core) onFailure() {
	if c.inFlight != nil && c.inFlight.sequence > 0 {
		c.failed = true
		return
	}
	c.inFlight = nil
}
