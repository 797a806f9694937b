package stack

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/verdictproxy/verdict/test/upstream"
)

// Options say what Start starts. The zero value of each field is the usual case.
type Options struct {
	// Extproc is the path of the service's binary, from BuildExtproc. It may be missing where Down is
	// set and no replica is ever started.
	Extproc string
	// Config is Verdict's configuration file, YAML; "" starts it without one.
	Config string
	// ExtprocArgs are further arguments of `extproc serve`. Without a --drain-time among them it is
	// 0s, so that the end of a test waits for nothing.
	ExtprocArgs []string
	// ExtprocEnv are further environment variables of `extproc serve`, NAME=value.
	ExtprocEnv []string
	// UnixSocket lets the replicas serve Envoy on Unix sockets instead of TCP ports.
	UnixSocket bool
	// Replicas of Verdict behind the one Envoy; 0 means 1.
	Replicas int
	// Down starts no replica: their ports are closed until RestartService.
	Down bool

	// Envoy is the version; "" means EnvoyVersion.
	Envoy string
	// EnvoyArgs are further arguments of Envoy, such as --concurrency 2 (by default it is 1).
	EnvoyArgs []string
	// Patches of envoy/hop.yaml, applied in this order after ports and addresses were set.
	Patches []Patch
}

// Stack is a running Envoy with its upstream and its replicas of Verdict. Methods that cannot do what
// they say end the test.
type Stack struct {
	Upstream *upstream.Server
	// Addr and AdminAddr are host:port of Envoy's outer listener and of its admin listener.
	Addr, AdminAddr string
	// ConfigFile is the configuration that Envoy runs.
	ConfigFile string

	t        TB
	options  Options
	dir      string
	envoy    *process
	replicas []*replica
	admin    *http.Client
	requests atomic.Int64
}

// readyLimit is how long anything may take to start.
const readyLimit = 20 * time.Second

// Start starts a Stack, waits until it is ready, and stops it when the test is over.
func Start(t TB, o Options) *Stack {
	t.Helper()
	o.Replicas = max(o.Replicas, 1)
	if o.Envoy == "" {
		o.Envoy = EnvoyVersion
	}
	// A connection of its own for each request: nothing is kept, nothing is sent twice.
	s := &Stack{t: t, options: o, admin: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}}
	t.Cleanup(s.close)
	if err := s.start(); err != nil {
		t.Fatalf("stack: %v", err)
	}
	return s
}

func (s *Stack) start() (err error) {
	if s.dir, err = os.MkdirTemp("", "verdict-stack-"); err != nil {
		return err
	}
	if s.Upstream, err = upstream.Start(upstream.Addrs{}); err != nil {
		return err
	}
	for i := range s.options.Replicas {
		r, err := s.newReplica(i)
		if err != nil {
			return err
		}
		s.replicas = append(s.replicas, r)
		if s.options.Down {
			continue
		}
		// Before Envoy: its first health check comes at once, its second a second later.
		if err := r.start(); err != nil {
			return err
		}
	}
	for _, r := range s.replicas {
		if err := r.waitListening(); err != nil {
			return err
		}
	}
	return s.startEnvoy()
}

// close stops everything, tells of what was not as it should be, and then of the logs.
func (s *Stack) close() {
	s.t.Helper()
	var errs []error
	if s.envoy != nil {
		errs = append(errs, s.envoy.stop(5*time.Second))
	}
	for _, r := range s.replicas {
		errs = append(errs, r.close())
	}
	if s.Upstream != nil {
		errs = append(errs, s.Upstream.Close())
	}
	if err := errors.Join(errs...); err != nil {
		s.t.Errorf("stack: %v", err)
	}
	if s.dir == "" {
		return
	}
	if s.t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
		for _, log := range logs {
			s.t.Logf("%s", tail(log))
		}
	}
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Errorf("stack: %v", err)
	}
}

// URL is the outer listener's.
func (s *Stack) URL() string { return "http://" + s.Addr }

// AdminURL is the one of Envoy's admin listener.
func (s *Stack) AdminURL() string { return "http://" + s.AdminAddr }

// NewID makes a request's id, which no other request of this Stack has.
func (s *Stack) NewID() string {
	return "r" + strconv.FormatInt(s.requests.Add(1), 10)
}

// poll asks ready every 20 ms until it returns nil, at most for limit. It stops early when a process
// that must run has ended.
func poll(limit time.Duration, must *process, ready func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := ready()
		if err == nil {
			return nil
		}
		if must != nil && must.ended() {
			return cmp.Or(must.unexpectedEnd(), fmt.Errorf("%s has ended: %w", must.name, err))
		}
		if time.Now().After(end) {
			return fmt.Errorf("after %v: %w", limit, err)
		}
	}
}

// tail is the end of a log file, with its name.
func tail(path string) string {
	const most = 32 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	cut := ""
	if len(text) > most {
		text, cut = text[len(text)-most:], "... "
	}
	return fmt.Sprintf("--- %s\n%s%s", filepath.Base(path), cut, text)
}
