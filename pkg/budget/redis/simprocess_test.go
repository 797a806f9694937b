package redis

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

func (s *sim) spawn() {
	// One that began just after the server's clock stepped cannot know that it did.
	if wait := s.lastStep + 3*int64(s.settings.Interval) - s.now; wait > 0 {
		s.after(wait, s.spawn)
		return
	}
	s.born++
	p := &proc{
		name: fmt.Sprint("p", s.born), server: s.servers[s.rnd.IntN(len(s.servers))],
		load: int64(pick(s.rnd, 10, 20, 50, 100)) * int64(time.Millisecond), failing: pick(s.rnd, 0.05, 0.5, 0.9),
	}
	for i := range s.accounts {
		p.accounts = append(p.accounts, &acct{index: i, shard: i, core: newCore(s.settings, simFlush)})
	}
	s.procs = append(s.procs, p)
	s.when(p, s.rnd.Int64N(p.load), func() { s.act(p) })
	s.when(p, s.rnd.Int64N(simFlush), func() { s.tick(p) })
}

func (s *sim) act(p *proc) {
	a := p.accounts[s.rnd.IntN(len(p.accounts))]
	for range 1 + s.rnd.IntN(4) {
		n := 1
		if s.rnd.IntN(20) == 0 {
			n = 1 + s.rnd.IntN(30)
		}
		milli := int64(n * s.settings.Ratio)
		s.write(p, a, budget.Event{Kind: budget.KindDeposit, Firsts: n, Milli: milli})
		a.core.deposit(s.now, milli)
		s.stats.Deposits += n
		if s.rnd.Float64() < p.failing {
			for range 1 + s.rnd.IntN(2) {
				s.withdraw(p, a)
			}
		}
	}
	if len(p.held) > 0 && s.rnd.IntN(4) == 0 {
		s.giveBack(p)
	}
	next := s.rnd.Int64N(2 * p.load)
	if s.rnd.IntN(100) == 0 {
		next = s.rnd.Int64N(2 * int64(s.settings.Interval))
	}
	s.when(p, next, func() { s.act(p) })
}

func (s *sim) write(p *proc, a *acct, e budget.Event) {
	e.Mono, e.Process, e.Account = s.now, "fleet", fmt.Sprint(a.index)
	s.log = append(s.log, e)
}

// withdraw is what account.withdraw does, without a goroutine that waits.
func (s *sim) withdraw(p *proc, a *acct) {
	if t := a.core.spend(s.now); t != nil {
		s.grant(p, a, t)
		return
	}
	late := a.calling > 0 && s.now >= a.sent+simWait
	if p.down || late || a.calling == 0 && !a.core.worthAsking(s.now) {
		s.settle(p, a)
		return
	}
	deadline := s.now + simWait
	a.waiting = append(a.waiting, deadline)
	s.call(p, a)
	s.when(p, simWait, func() {
		if i := slices.Index(a.waiting, deadline); i >= 0 {
			a.waiting = slices.Delete(a.waiting, i, i+1)
			if t := a.core.spend(s.now); t != nil {
				s.grant(p, a, t)
			} else {
				s.settle(p, a)
			}
		}
	})
}

func (s *sim) settle(p *proc, a *acct) {
	if t := a.core.spendLocal(s.now); t != nil {
		s.stats.Local++
		s.grant(p, a, t)
		return
	}
	s.stats.Refused++
}

func (s *sim) grant(p *proc, a *acct, t *token) {
	s.serial++
	s.stats.Grants++
	id := strconv.Itoa(s.serial)
	s.write(p, a, budget.Event{Kind: budget.KindGrant, Milli: budget.Token, Source: t.source, Grant: id})
	p.held = append(p.held, heldGrant{a, *t, id})
}

func (s *sim) giveBack(p *proc) {
	i := len(p.held) - 1 - s.rnd.IntN(min(len(p.held), 20))
	h := p.held[i]
	p.held = slices.Delete(p.held, i, i+1)
	if s.now >= h.token.deadline {
		return
	}
	s.stats.Returns++
	s.write(p, h.account, budget.Event{Kind: budget.KindReturn, Milli: budget.Token, Source: h.token.source, Grant: h.id})
	h.account.core.giveBack(h.token)
	if s.mutant == returnedTwice {
		h.account.core.giveBack(h.token)
	}
}

func (s *sim) tick(p *proc) {
	s.when(p, simFlush, func() { s.tick(p) })
	for _, a := range p.accounts {
		if !p.down && (len(a.waiting) > 0 || a.core.needsFlush(s.now)) {
			s.call(p, a)
		}
	}
	if p.down && s.rnd.IntN(4) == 0 {
		s.probe(p)
	}
}

func (s *sim) call(p *proc, a *acct) {
	if a.calling > 0 || p.down || !a.pace.take(s.now) {
		return
	}
	if a.core.inFlight != nil && a.core.failed {
		s.stats.Repeats++
		if s.mutant == flushedTwice {
			a.core.sequence++
			a.core.inFlight.sequence = a.core.sequence
		}
	}
	r := a.core.plan(s.now, p.timeline.view(a.shard), int64(len(a.waiting)), false)
	if r == nil {
		return
	}
	if s.mutant == leasesAgain && r.want == 0 && len(r.deposits) > 0 {
		r.want = 3
		a.core.sequence++
		r.sequence = a.core.sequence
	}
	if s.mutant == spentTwice && len(r.deposits) > 0 && s.rnd.IntN(4) == 0 {
		a.core.deposit(s.now, r.deposits[0].milli)
	}
	a.sent = s.now
	a.calling = s.send(p, a.shard, a.index, r, func(sent int64, reply *reply) {
		a.calling = 0
		if reply != nil {
			stepped := p.timeline.learn(a.shard, r.view, sent, s.now, reply)
			if s.mutant == stepBlind {
				p.timeline.anchor = anchor{redis: reply.time, sent: sent, recv: s.now}
				for i := range p.timeline.shard {
					p.timeline.shard[i].reset = false
				}
				stepped = false
			}
			a.core.onReply(sent, s.now, reply, stepped)
			if s.mutant == undated {
				for i := range a.core.pool {
					a.core.pool[i].deadline = 1 << 62
				}
			}
		} else {
			a.core.onFailure()
		}
		p.down = reply == nil
		for len(a.waiting) > 0 {
			t := a.core.spend(s.now)
			if t == nil {
				break
			}
			a.waiting = a.waiting[1:]
			s.grant(p, a, t)
		}
		if len(a.waiting) > 0 && a.core.worthAsking(s.now) {
			s.call(p, a)
		} else if len(a.waiting) > 0 {
			for range a.waiting {
				s.settle(p, a)
			}
			a.waiting = nil
		}
	})
}

func (s *sim) probe(p *proc) {
	r := &request{view: p.timeline.view(0), settings: s.settings, planned: s.now}
	s.send(p, 0, 99, r, func(sent int64, reply *reply) {
		if reply != nil {
			p.timeline.learn(0, r.view, sent, s.now, reply)
		}
		p.down = reply == nil
	})
}
