package redis

import (
	"context"
	"time"
)

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
	a.Leave()
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
	a.Hold()
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
	a.Hold()
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
	if !a.Gone && a.core.lacks(recv, a.waiting) {
		a.call(recv)
	}
	a.Leave()
}

// tick is called once in a flush period.
func (a *account) tick(now int64) {
	if !a.Enter() {
		return
	}
	defer a.Leave()
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

// refresh waits until a call that began after this one has ended, for at most d.
func (a *account) refresh(d int64) {
	if !a.Enter() {
		return
	}
	defer a.Leave()
	if a.never || a.free {
		return
	}
	enough := a.calls + 1
	if a.calling {
		enough++
	}
	deadline := a.clock() + d
	for !a.Gone && a.calls < enough && !a.budget.down.Load() {
		left := deadline - a.clock()
		if left <= 0 || !a.await(context.Background(), time.Duration(left), 0) {
			return
		}
	}
}

// finish brings back what is left when the account is gone.
func (a *account) finish() {
	a.Hold()
	defer a.Leave()
	if a.budget.down.Load() || len(a.core.pending)+len(a.core.pool) == 0 {
		return
	}
	if r := a.core.plan(a.clock(), a.budget.timeline.view(a.shard), 0, true); r != nil && r.sequence > 0 {
		a.budget.running.Go(func() { a.exchange(r) })
	}
}
