package redis

import (
	"bytes"
	"container/heap"
	"encoding/json"
	"fmt"
	"math/rand/v2"
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
