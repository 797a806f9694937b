package stack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is a child that cannot outlive this one.
type process struct {
	name string
	log  string // a file: what it wrote to stdout and stderr, over all its lives
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu       sync.Mutex
	expected bool // its end was asked for
}

// startProcess starts args with its output appended to the file log.
func startProcess(name, log string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	p := &process{name: name, log: log, cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	p.cmd.Dir = filepath.Dir(log)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// Pdeathsig holds for the thread that forks; the Go runtime ends a thread only with a goroutine
	// that is locked to it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // ProcessState says it
		close(p.done)
	}()
	return p, nil
}

// signal sends sig. expected: the process may end of it.
func (p *process) signal(sig syscall.Signal, expected bool) error {
	p.mu.Lock()
	p.expected = p.expected || expected
	p.mu.Unlock()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// halted is nil once every thread has obeyed SIGSTOP.
func (p *process) halted() error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		return fmt.Errorf("%s has no threads to look at: %w", p.name, err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return err
		}
		// The state follows the name, which stands in parentheses and may contain anything.
		if i := bytes.LastIndexByte(stat, ')'); i < 0 || !bytes.HasPrefix(stat[i+1:], []byte(" T")) {
			return fmt.Errorf("%s still runs", p.name)
		}
	}
	return nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits until the process has ended.
func (p *process) wait(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// kill ends the process at once and waits for its end.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL, true)
	<-p.done
	return err
}

// stop lets the process end by itself, at most for limit, and returns what was wrong with its end.
func (p *process) stop(limit time.Duration) error {
	select {
	case <-p.done:
		return p.unexpectedEnd()
	default:
	}
	if err := errors.Join(p.signal(syscall.SIGTERM, true), p.signal(syscall.SIGCONT, true)); err != nil {
		return errors.Join(err, p.kill())
	}
	if !p.wait(limit) {
		return errors.Join(fmt.Errorf("%s: still runs %v after SIGTERM", p.name, limit), p.kill())
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: after SIGTERM: %v", p.name, p.cmd.ProcessState)
	}
	return nil
}

// unexpectedEnd is an error if the process has ended and nobody had asked for it; only the first time.
func (p *process) unexpectedEnd() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expected || !p.ended() {
		return nil
	}
	p.expected = true
	return fmt.Errorf("%s: ended by itself: %v", p.name, p.cmd.ProcessState)
}

// races returns an error if the race detector has spoken in the log file.
func races(log string) error {
	text, err := os.ReadFile(log)
	if err == nil && bytes.Contains(text, []byte("WARNING: DATA RACE")) {
		err = fmt.Errorf("%s: a data race", filepath.Base(log))
	}
	return err
}
