package stack

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
)

// TB is what a Stack needs of a *testing.T. Run has one for programs that are no tests.
type TB interface {
	Helper()
	Name() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf ends the calling goroutine.
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// Run calls f with a TB of its own, in a goroutine of its own, runs what f gave to Cleanup, and
// returns false if f has failed. What a test would log is written to log.
func Run(name string, log io.Writer, f func(TB)) bool {
	t := &runner{name: name, log: log}
	var running sync.WaitGroup
	running.Go(func() {
		defer t.cleanUp()
		f(t)
	})
	running.Wait()
	return !t.Failed()
}

type runner struct {
	name string

	mu       sync.Mutex
	log      io.Writer
	failed   bool
	cleanups []func()
}

func (t *runner) Helper()      {}
func (t *runner) Name() string { return t.name }

func (t *runner) Logf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.log, format+"\n", args...)
}

func (t *runner) Errorf(format string, args ...any) {
	t.Logf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
}

func (t *runner) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *runner) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *runner) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *runner) cleanUp() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
