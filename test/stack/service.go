package stack

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// replica is one process of Verdict, or the closed ports where it would be.
type replica struct {
	name, log   string
	data, admin string // addresses: host:port, data also unix:/path
	args        []string
	process     *process // nil before its first start
}

func (s *Stack) newReplica(i int) (r *replica, err error) {
	r = &replica{name: fmt.Sprintf("verdict-%d", i)}
	r.log = filepath.Join(s.dir, r.name+".log")
	if r.data, err = s.freeAddr(); err != nil {
		return nil, err
	}
	if r.admin, err = s.freeAddr(); err != nil {
		return nil, err
	}
	if s.options.UnixSocket {
		r.data = "unix:" + filepath.Join(s.dir, r.name+".sock")
	}
	r.args = []string{s.options.Extproc, "serve", "--data-plane", r.data, "--admin", r.admin, "--log-level", "debug"}
	if !slices.Contains(s.options.ExtprocArgs, "--drain-time") {
		r.args = append(r.args, "--drain-time", "0s")
	}
	if s.options.Config != "" {
		file := s.serviceConfig()
		if err := os.WriteFile(file, []byte(s.options.Config), 0o644); err != nil {
			return nil, err
		}
		r.args = append(r.args, "--config", file)
	}
	r.args = append(r.args, s.options.ExtprocArgs...)
	if len(s.options.ExtprocEnv) > 0 {
		r.args = slices.Concat([]string{"env"}, s.options.ExtprocEnv, r.args) // becomes the service
	}
	return r, nil
}

// freeAddr is a port of the loopback address. It stays bound, not listening, as long as the Stack
// lives, so that nobody else gets it while the process that it is meant for is not there.
func (s *Stack) freeAddr() (string, error) {
	port, err := s.Upstream.Reserve("")
	if err != nil {
		return "", err
	}
	return port.Addr(), nil
}

func (r *replica) start() (err error) {
	r.process, err = startProcess(r.name, r.log, r.args...)
	return err
}

func (r *replica) waitListening() error {
	if r.process == nil {
		return nil
	}
	for _, addr := range []string{r.data, r.admin} {
		network := "tcp"
		if path, ok := strings.CutPrefix(addr, "unix:"); ok {
			network, addr = "unix", path
		}
		err := poll(readyLimit, r.process, func() error {
			conn, err := net.Dial(network, addr)
			if err != nil {
				return err
			}
			return conn.Close()
		})
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

func (r *replica) close() error {
	if r.process == nil {
		return nil
	}
	return errors.Join(r.process.stop(10*time.Second), races(r.log))
}

// running returns the i-th replica's process, from 0.
func (s *Stack) running(i int) *process {
	s.t.Helper()
	if i < 0 || i >= len(s.replicas) || s.replicas[i].process == nil || s.replicas[i].process.ended() {
		s.t.Fatalf("stack: replica %d of %d does not run", i, len(s.replicas))
	}
	return s.replicas[i].process
}

// KillService ends the i-th replica, from 0, by SIGKILL. Its port is then closed.
func (s *Stack) KillService(i int) {
	s.t.Helper()
	if err := s.running(i).kill(); err != nil {
		s.t.Fatalf("stack: %v", err)
	}
}

// StopService halts the i-th replica by SIGSTOP: it hangs, and its connections stay. It returns once
// every thread has halted: on a busy machine some run on for a while after the signal was sent.
func (s *Stack) StopService(i int) {
	s.t.Helper()
	s.signal(i, syscall.SIGSTOP)
	p := s.running(i)
	if err := poll(10*time.Second, p, p.halted); err != nil {
		s.t.Fatalf("stack: %v", err)
	}
}

// ContinueService ends StopService.
func (s *Stack) ContinueService(i int) { s.t.Helper(); s.signal(i, syscall.SIGCONT) }

// TerminateService sends SIGTERM to the i-th replica and does not wait for its end.
func (s *Stack) TerminateService(i int) { s.t.Helper(); s.signal(i, syscall.SIGTERM) }

func (s *Stack) signal(i int, sig syscall.Signal) {
	s.t.Helper()
	if err := s.running(i).signal(sig, sig == syscall.SIGTERM); err != nil {
		s.t.Fatalf("stack: %v", err)
	}
}

// WaitServiceExit waits for the end of the i-th replica and returns its exit code, -1 after a signal.
func (s *Stack) WaitServiceExit(i int, limit time.Duration) int {
	s.t.Helper()
	p := s.replicas[i].process
	if p == nil || !p.wait(limit) {
		s.t.Fatalf("stack: replica %d has not ended within %v", i, limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// RestartService starts the i-th replica on its old ports, ending it by SIGKILL if it runs. It waits
// until the replica listens, not until Envoy knows it: that is WaitHealthy.
func (s *Stack) RestartService(i int) {
	s.t.Helper()
	r := s.replicas[i]
	if r.process != nil && !r.process.ended() {
		s.KillService(i)
	}
	if err := r.start(); err != nil {
		s.t.Fatalf("stack: %v", err)
	}
	if err := r.waitListening(); err != nil {
		s.t.Fatalf("stack: %v", err)
	}
}

// ServiceAddr is the i-th replica's data plane: host:port, or unix:/path.
func (s *Stack) ServiceAddr(i int) string { return s.replicas[i].data }

// ServiceAdminURL is the one of the i-th replica's admin listener.
func (s *Stack) ServiceAdminURL(i int) string { return "http://" + s.replicas[i].admin }

// ServicePID is the i-th replica's process id.
func (s *Stack) ServicePID(i int) int { s.t.Helper(); return s.running(i).cmd.Process.Pid }

// ServiceLog is what the i-th replica has logged, in all its lives.
func (s *Stack) ServiceLog(i int) string {
	s.t.Helper()
	return s.read(s.replicas[i].log)
}

func (s *Stack) read(path string) string {
	s.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatalf("stack: %v", err)
	}
	return string(text)
}
