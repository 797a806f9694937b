package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// loadCmd plays the scenarios over and over, beside a steady load, against an Envoy, a Verdict and a faulty
// upstream that run already and may be stopped, killed and cut off from each other meanwhile.
type loadCmd struct {
	Envoy   string        `default:"127.0.0.1:10000" placeholder:"ADDR" help:"Envoy's outer listener."`
	Control string        `default:"127.0.0.1:9000" placeholder:"ADDR" help:"The control listener of the faulty upstream."`
	Listen  string        `default:"127.0.0.1:9100" placeholder:"ADDR" help:"Where /healthz, /metrics and /report are."`
	Pause   time.Duration `default:"2s" help:"The time between two rounds of the scenarios."`
	Rate    int           `default:"20" help:"Requests a second beside the scenarios, half of them to an upstream whose retry budget is short; 1 to 1000."`
}

// loadParallel scenarios at once: few enough for one processor.
const loadParallel = 4

// Run plays until it is told to stop.
func (c *loadCmd) Run(ctx context.Context) error {
	if c.Rate < 1 || c.Rate > 1000 {
		return fmt.Errorf("--rate %d: 1 to 1000", c.Rate)
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	return newLoad(*c).serve(ctx, listener)
}

func newLoad(c loadCmd) *load {
	return &load{loadCmd: c, control: newControl(c.Control), seen: newSeen(), run: fmt.Sprintf("%x", time.Now().UnixNano())}
}

// serve plays, and shows what it has seen, until ctx ends.
func (l *load) serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{Handler: l.seen.pages(), ReadHeaderTimeout: 5 * time.Second}
	broken := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { broken <- server.Serve(listener) })
	running.Go(func() { l.scenarios(ctx) })
	running.Go(func() { l.steady(ctx) })
	var err error
	select {
	case err = <-broken:
	case <-ctx.Done():
	}
	cancel()
	_ = server.Close()
	running.Wait()
	return err
}

type load struct {
	loadCmd
	control *control
	seen    *seen
	run     string // so that no other load generator has the same ids
	ids     atomic.Int64

	shared sync.Mutex // one at a time: see sharedConnection
	late   sync.Mutex // one at a time has the late port
}

func (l *load) scenarios(ctx context.Context) {
	all := slices.Concat(scenarios, withCredential(func() error { return nil })) // a new token for whoever asks
	for ctx.Err() == nil {
		slots := make(chan struct{}, loadParallel)
		var round sync.WaitGroup
		for _, sc := range all {
			slots <- struct{}{}
			round.Go(func() {
				defer func() { <-slots }()
				l.play(ctx, sc)
			})
		}
		round.Wait()
		l.seen.round()
		sleep(ctx, l.Pause)
	}
}

// steady plays without looking for what the scenarios want: there the budget decides. A request that
// finds too many others under way is left out, so that a slow machine is not drowned.
func (l *load) steady(ctx context.Context) {
	ticks := time.NewTicker(time.Second / time.Duration(l.Rate))
	defer ticks.Stop()
	slots := make(chan struct{}, 2*l.Rate)
	var all sync.WaitGroup
	defer all.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		sc := scenario{name: "steady: GET", request: get("/steady", "ok")}
		if n%2 == 1 {
			faults := []string{"reset,reset,ok", "reset", "503,ok", "ok"}
			sc = scenario{name: "steady: half of it fails", request: at("flood", get("/flood", faults[rand.IntN(len(faults))]))}
		}
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			l.play(ctx, sc)
		})
	}
}

// play sends one request, asks the upstream what it saw of it, and counts.
func (l *load) play(ctx context.Context, sc scenario) {
	e := exchange{scenario: sc}
	e.request.ID = fmt.Sprintf("%s-%d", l.run, l.ids.Add(1))
	switch {
	case e.request.Host == "h2.example":
		l.shared.Lock()
		defer l.shared.Unlock()
	case sc.during != nil:
		l.late.Lock()
		defer l.late.Unlock()
	}
	started, unseen := l.control.started(ctx)
	opened := make(chan error, 1)
	if sc.during == nil {
		opened <- nil
	} else {
		go func() { opened <- sc.during(func() error { return l.control.late(ctx, "open") }) }()
	}
	begin := time.Now()
	e.answer, e.err = stack.Send(ctx, l.Envoy, e.request)
	if err := <-opened; unseen == nil {
		unseen = err
	}
	if unseen == nil {
		e.hits, unseen = l.control.hits(ctx, e.request.ID, started)
	}
	if sc.during != nil && unseen == nil {
		unseen = l.control.late(ctx, "shut")
	}
	if ctx.Err() == nil {
		l.seen.count(e, unseen, begin)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// healthCmd is the health check of a container without a shell.
type healthCmd struct {
	URL string `arg:"" help:"What must answer 200."`
}

// Run asks once.
func (c *healthCmd) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	fmt.Fprintln(os.Stdout, answer.Status)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", c.URL, answer.Status)
	}
	return nil
}
