package redis

import (
	"bytes"
	"container/heap"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/budgettest"
)

// A sim is a fleet on a virtual clock: the cores and timelines of some processes, which are the very
// code that serves, one or two servers that run the script's model, and a network between them that
// delays and loses. Everything follows from the seed.
type sim struct {
	rnd      *rand.Rand
	now      int64 // true monotonic time, ns
	queue    events
	order    int
	settings budget.Settings
	accounts int
	procs    []*proc
	servers  []*server1
	masters  int // at most, at once
	log      []budget.Event
	born     int
	serial   int
	mutant   mutant
	faults   map[string]int
	stats    simStats
	lastStep int64
}

type simStats struct{ Grants, Local, Refused, Deposits, Returns, Calls, Lost, Repeats int }

type mutant string

const (
	sound         mutant = "none"
	undated       mutant = "a lease without an expiry"
	flushedTwice  mutant = "a flush repeated with a new sequence number"
	returnedTwice mutant = "a token returned twice"
	forgets       mutant = "a reserve that forgets when a lease ends"
	spentTwice    mutant = "a deposit both flushed and spent here"
	noEpochs      mutant = "a server that believes what it remembers"
	leasesAgain   mutant = "a repeat that takes a lease of its own from what it deposits again"
	stepBlind     mutant = "a process that does not look at the server's clock"
)

type server1 struct {
	model  *model
	offset int64 // its clock minus the true time, us
	alive  bool
	sim    *sim
}

func (s *server1) time() int64 { return 1_700_000_000_000_000 + s.offset + s.sim.now/1000 }

type proc struct {
	name     string
	server   *server1
	cut      bool // no packet passes
	paused   int64
	down     bool
	dead     bool
	timeline timeline
	accounts []*acct
	held     []heldGrant
	load     int64 // mean ns between actions
	failing  float64
}

type acct struct {
	index   int
	shard   int
	core    core
	pace    pace
	calling int // number of the call under way; 0 is none
	sent    int64
	waiting []int64 // deadlines
}

type heldGrant struct {
	account *acct
	token   token
	id      string
}

type simEvent struct {
	at    int64
	order int
	run   func()
}

type events []simEvent

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(simEvent)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s *sim) after(d int64, run func()) {
	s.order++
	heap.Push(&s.queue, simEvent{s.now + d, s.order, run})
}

// when is after, for a process: not while it is paused, not when it is dead.
func (s *sim) when(p *proc, d int64, run func()) {
	s.after(d, func() {
		switch {
		case p.dead:
		case p.paused > s.now:
			s.when(p, p.paused-s.now, run)
		default:
			run()
		}
	})
}

const (
	simFlush   = int64(20 * time.Millisecond)
	simWait    = int64(5 * time.Millisecond)
	simTimeout = int64(100 * time.Millisecond)
	simStart   = int64(100 * time.Second)
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// simulate runs some intervals of a fleet and returns the sim with its event log.
func simulate(seed uint64, m mutant, kinds ...string) *sim {
	r := rand.New(rand.NewPCG(seed, 20))
	s := &sim{rnd: r, now: simStart, mutant: m, faults: map[string]int{}, masters: 1, lastStep: -1 << 60}
	s.settings = budget.Settings{
		Ratio: pick(r, 0, 100, 200, 1000, r.IntN(1001)), Reserve: pick(r, 0, 1, 10, 10, 50), Interval: pick(r, time.Second, time.Second, 1300*time.Millisecond),
	}
	s.accounts = 1 + r.IntN(2)
	first := &server1{sim: s, alive: true}
	first.model = newModel(first.time, "a0")
	first.model.forgetful = m == forgets
	first.model.trusting = m == noEpochs
	s.servers = []*server1{first}
	if r.IntN(2) == 0 { // it has been up for long
		for i := range shards {
			first.model.keys[fmt.Sprintf("e%d", i)] = &entry{text: "a0:1000000:1"}
		}
	}
	for range 2 + r.IntN(4) {
		s.spawn()
	}
	end := s.now + int64(s.settings.Interval)*int64(3+r.IntN(4))
	s.after(r.Int64N(int64(time.Second)), func() { s.fault(kinds) })
	for len(s.queue) > 0 {
		e := heap.Pop(&s.queue).(simEvent)
		if e.at > end {
			break
		}
		s.now = e.at
		e.run()
	}
	return s
}

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

// send carries a request to the process's server and its reply back. done is called once, with nil for
// a failure or when the time is up; a request may arrive long after that.
func (s *sim) send(p *proc, shard, account int, r *request, done func(sent int64, r *reply)) int {
	s.stats.Calls++
	sent, called := s.now, false
	end := func(reply *reply) {
		if !called {
			called = true
			done(sent, reply)
		}
	}
	keys := []string{fmt.Sprint("a", account), fmt.Sprint("e", shard), fmt.Sprint("q", account, p.name)}
	argv := r.args()
	server := p.server
	there, back := s.delay(), s.delay()
	s.when(p, simTimeout, func() { end(nil) })
	s.after(there, func() {
		if !server.alive || p.cut {
			s.when(p, back, func() { end(nil) })
			return
		}
		reply, err := readReply(server.model.eval(keys, argv))
		if err != nil {
			panic(err)
		}
		if p.cut || s.rnd.IntN(50) == 0 {
			s.stats.Lost++
			return // only the reply is lost
		}
		s.when(p, back, func() { end(reply) })
	})
	return s.stats.Calls
}

func (s *sim) delay() int64 {
	switch s.rnd.IntN(40) {
	default:
		return 50_000 + s.rnd.Int64N(400_000)
	case 0:
		return s.rnd.Int64N(20_000_000)
	case 1:
		return s.rnd.Int64N(300_000_000)
	}
}

func (s *sim) live() *proc {
	p := s.procs[s.rnd.IntN(len(s.procs))]
	if p.dead {
		return nil
	}
	return p
}

// fault lets one of the kinds happen, and the next one later.
func (s *sim) fault(kinds []string) {
	if len(kinds) == 0 {
		return
	}
	s.after(s.rnd.Int64N(2*int64(s.settings.Interval)/3), func() { s.fault(kinds) })
	kind := pick(s.rnd, kinds...)
	s.faults[kind]++
	p, server := s.live(), s.servers[0]
	switch kind {
	case "kill":
		if p != nil {
			p.dead = true
			s.after(s.rnd.Int64N(int64(100*time.Millisecond)), s.spawn)
		}
	case "pause":
		if p != nil {
			p.paused = s.now + s.rnd.Int64N(2*int64(s.settings.Interval))
		}
	case "cut":
		if p != nil {
			p.cut = true
			s.after(s.rnd.Int64N(int64(s.settings.Interval)), func() { p.cut = false })
		}
	case "flush":
		clear(server.model.keys)
	case "restart":
		server.alive = false
		s.after(s.rnd.Int64N(int64(500*time.Millisecond)), func() {
			server.alive = true
			server.model.run = fmt.Sprint("a", s.rnd.IntN(1000))
			if s.rnd.IntN(2) == 0 {
				clear(server.model.keys) // else it read a dump
			}
		})
	case "step":
		d := int64(s.settings.Interval)/1000/8 + s.rnd.Int64N(pick[int64](s.rnd, 60_000_000, 1_500_000))
		if s.rnd.IntN(2) == 0 {
			d = -d
		}
		s.lastStep = s.now
		server.offset += d
	case "masters":
		if len(s.servers) > 1 {
			return
		}
		s.masters = 2
		second := &server1{sim: s, alive: true, offset: server.offset + s.rnd.Int64N(2000) - 1000}
		second.model = server.model.clone("b" + strconv.Itoa(s.rnd.IntN(1000)))
		second.model.now = second.time
		s.servers = append(s.servers, second)
		for _, p := range s.procs {
			if s.rnd.IntN(2) == 0 {
				p.server = second
			}
		}
		s.after(s.rnd.Int64N(2*int64(s.settings.Interval)), func() {
			server.alive = false
			s.servers = s.servers[1:]
			for _, p := range s.procs {
				p.server = second
			}
		})
	}
}

// check runs the law's checker over the fleet as one.
func (s *sim) check() error {
	var log bytes.Buffer
	for _, e := range s.log {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		log.Write(append(line, '\n'))
	}
	allowed := s.settings
	allowed.Reserve *= s.masters
	return budgettest.Check(&log, same(allowed))
}
