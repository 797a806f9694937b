package redis

import "sync"

// shards is how many epoch keys there are. An upstream's shard is part of its keys' hash tag, so its
// account lies in one slot with the epoch that guards it, and the epochs, which never expire, are few.
const shards = 16

// drift bounds how far the two clocks run apart between two replies: 1/1024 of the time passed. (The
// kernel slews a clock by at most 1/2000.)
func drift(d int64) int64 {
	if d < 0 {
		d = -d
	}
	return d >> 10
}

// An anchor ties the process's monotonic clock (nanoseconds) to the Redis server's (microseconds): at
// some instant between sent and recv the server's clock showed redis. The zero anchor knows nothing.
type anchor struct {
	redis      int64
	sent, recv int64
}

func (a anchor) known() bool { return a.redis != 0 }

// low is a lower bound of the server's time at the monotonic instant at, which may lie before the
// anchor.
func (a anchor) low(at int64) int64 {
	d := at - a.recv
	return a.redis + floorDiv(d-drift(d), 1000)
}

// high is an upper bound of it.
func (a anchor) high(at int64) int64 {
	d := at - a.sent
	return a.redis + floorDiv(d+drift(d), 1000) + 1
}

func floorDiv(x, y int64) int64 {
	q := x / y
	if x%y < 0 {
		q--
	}
	return q
}

// A view is what a process knows about the server when it sends a request to a shard.
type view struct {
	anchor anchor
	epoch  string // of the shard; "" if not yet known
	reset  bool   // the clock has stepped since the epoch began, as far as we know
}

// fresh reports whether instants can be dated well enough for deposits to be accepted.
func (v view) fresh(now, interval int64) bool {
	return v.anchor.known() && now-v.anchor.recv < interval && v.epoch != "" && !v.reset
}

// A timeline is what a process knows about the server over all shards.
type timeline struct {
	mu     sync.Mutex
	anchor anchor
	shard  [shards]struct {
		epoch string
		reset bool
	}
}

func (t *timeline) view(shard int) view {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.shard[shard]
	return view{anchor: t.anchor, epoch: s.epoch, reset: s.reset}
}

// stepMargin is how far a reply's time may lie outside the bounds before it counts as a step of the
// server's clock, in microseconds. Stamps and deadlines keep that distance, so a smaller step, or a
// master whose clock differs by less, changes nothing.
const stepMargin = 1000

// learn takes in the reply to a request that was sent with v, and reports whether the server's clock
// has stepped meanwhile. After a step no stored time can be trusted, so the epoch of every shard is
// made to end by the next request to it.
func (t *timeline) learn(shard int, v view, sent, recv int64, r *reply) (stepped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.anchor.known() {
		stepped = r.time < v.anchor.low(sent)-stepMargin || r.time > v.anchor.high(recv)+stepMargin
	}
	if stepped {
		for i := range t.shard {
			t.shard[i].reset = true
		}
	}
	if stepped || sent > t.anchor.sent || !t.anchor.known() {
		t.anchor = anchor{redis: r.time, sent: sent, recv: recv}
	}
	s := &t.shard[shard]
	s.epoch = r.epoch
	if r.since == r.time {
		// It began by this request. One that somebody else began may lie between two steps.
		s.reset = false
	}
	return stepped
}
