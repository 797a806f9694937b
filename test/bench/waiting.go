package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

const (
	waiters = 5000
	// The upstream asks for 8 s, so after the ramp all wait at once.
	ramp = 5 * time.Second
)

// longDeadline leaves the second attempts time on a busy machine too.
var longDeadline = stack.NewPatch("a deadline of 30 s",
	stack.Set(stack.Route("outer", "all", "0")+"/route/timeout", "30s"))

// enoughTokens lets everybody wait: the default reserve is 100 retries in 10 s.
const enoughTokens = `{defaults: {budget: {min_retries_per_second: 1000}}}`

// waiting has 5,000 clients whose first attempt fails with 503 and Retry-After, each on a connection of
// its own, through the real Envoy. When all of them wait, the service's resident memory is compared with
// what it was before the first.
func (b *bench) waiting() {
	up, err := startUpstream()
	b.must(err)
	defer up.listener.Close()
	s := stack.Start(b, stack.Options{
		Extproc:     b.extproc(),
		Config:      enoughTokens,
		ExtprocArgs: []string{"--log-level", "info"},
		Patches:     []stack.Patch{appAt(up), longDeadline},
	})
	resident := func(pid int) float64 {
		b.Helper()
		kib, err := residentKiB(pid)
		b.must(err)
		return kib
	}
	service, envoy := resident(s.ServicePID(0)), resident(s.EnvoyPID())
	g := get{s.Addr, "/wait", "200", ""}
	failures := make(chan error, waiters)
	var clients sync.WaitGroup
	begin := time.Now()
	for i := range waiters {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * ramp / waiters)))
		clients.Go(func() {
			c, err := g.connect()
			if err == nil {
				err = c.exchange()
				c.conn.Close()
			}
			if err != nil {
				failures <- err
			}
		})
	}
	var most, mostEnvoy float64 // KiB
	held := 0
	for end := begin.Add(ramp + 2500*time.Millisecond); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		held = max(held, int(s.ServiceMetric(0, "verdict_waiting")))
		most, mostEnvoy = max(most, resident(s.ServicePID(0))), max(mostEnvoy, resident(s.EnvoyPID()))
	}
	up.recovered.Store(true)
	clients.Wait()
	close(failures)
	failed := len(failures)
	if failed > 0 {
		fmt.Printf("%d of %d did not get the answer of their second attempt; one of them: %v\n", failed, waiters, <-failures)
	}
	if held != waiters {
		b.Fatalf("bench: at most %d of %d waited at once", held, waiters)
	}
	each := (most - service) / waiters
	fmt.Printf("resident memory with %d waiting: service %.0f -> %.0f KiB, Envoy %.0f -> %.0f KiB (%.1f KiB each)\n",
		waiters, service, most, envoy, mostEnvoy, (mostEnvoy-envoy)/waiters)
	b.summary.atMost(fmt.Sprintf("%d waiting judges: memory of the service, each", waiters), 30, []float64{each}, " KiB")
	b.summary.inform(fmt.Sprintf("%d waiting judges: retried after their wait", waiters), fmt.Sprint(waiters-failed))
}
