// Package redistest starts real Redis and Valkey servers for tests.
package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Binaries are the servers at hand by name, such as "redis-6.2.14": redis-server on the PATH, and those
// that `make tools` fetches. None at all fails the test.
func Binaries(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	if path, err := exec.LookPath("redis-server"); err == nil {
		found["redis-"+version(t, path)] = path
	}
	_, here, _, _ := runtime.Caller(0)
	for _, pattern := range []string{"redis-*", "valkey-*"} {
		paths, _ := filepath.Glob(filepath.Join(filepath.Dir(here), "../../../../.tools", pattern))
		for _, path := range paths {
			name := filepath.Base(path)
			if _, ok := found[name]; !ok {
				found[name] = path
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("no redis-server on the PATH and none in .tools: run make tools")
	}
	return found
}

func version(t testing.TB, path string) string {
	t.Helper()
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", path, err)
	}
	_, text, _ := strings.Cut(string(out), "v=")
	text, _, _ = strings.Cut(text, " ")
	return text
}

// Binary is redis-server on the PATH, else one that `make tools` fetches.
func Binary(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path
	}
	found := Binaries(t)
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return found[names[0]]
}

// Server is a running server without persistence, on a port of its own.
type Server struct {
	Address string // 127.0.0.1:port

	t      testing.TB
	binary string
	dir    string
	// socket is this server's alone, and it listens there once it has the port: at the port somebody else
	// may answer.
	socket string
	args   []string

	mu      sync.Mutex
	cmd     *exec.Cmd
	stopped chan struct{} // closed when cmd has ended
	output  *output
}

// Start starts the binary with more arguments of its command line, waits until it answers, and stops it
// when the test ends.
func Start(t testing.TB, binary string, args ...string) *Server {
	t.Helper()
	var err error
	s := &Server{t: t, binary: binary, dir: t.TempDir(), socket: socketFile(t), args: args}
	for range 10 { // others look for ports too
		s.Address = freePort(t)
		if err = s.start(nil); !errors.Is(err, errPortTaken) {
			break
		}
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", binary, s.output)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// socketFile is in a folder whose name is shorter than a test's: 108 bytes are all that a socket's may have.
func socketFile(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// freePort is below the ports that the kernel gives to outgoing connections, so that it stays free while
// a server is restarted.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// Restart starts the server anew, on the same port, with what it saved, which is nothing by itself, and
// with more arguments. It must not be running.
func (s *Server) Restart(more ...string) {
	s.t.Helper()
	err := s.start(more)
	for end := time.Now().Add(20 * time.Second); errors.Is(err, errPortTaken) && time.Now().Before(end); err = s.start(more) {
		time.Sleep(50 * time.Millisecond) // somebody who looks for a port holds it for a moment
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// errPortTaken is a server that has ended because somebody else listens on its port.
var errPortTaken = errors.New("its port is taken")

func (s *Server) start(more []string) error {
	_, port, _ := net.SplitHostPort(s.Address)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--unixsocket", s.socket, "--save", "", "--appendonly", "no", "--dir", s.dir, "--loglevel", "warning"}, append(s.args, more...)...)
	cmd := exec.Command(s.binary, args...)
	s.output = &output{}
	cmd.Stdout, cmd.Stderr = s.output, s.output
	// It must not outlive a test that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stopped := make(chan struct{})
	begun := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread that began the process ends
		defer runtime.UnlockOSThread()
		begun <- cmd.Start()
		_ = cmd.Wait()
		close(stopped)
	}()
	if err := <-begun; err != nil {
		return err
	}
	s.mu.Lock()
	s.cmd, s.stopped = cmd, stopped
	s.mu.Unlock()
	for range 2000 {
		if listens("unix", s.socket) && listens("tcp", s.Address) {
			return nil
		}
		select {
		case <-stopped:
			err := fmt.Errorf("%s has ended:\n%s", s.binary, s.output)
			if strings.Contains(s.output.String(), "Failed listening on port") {
				err = fmt.Errorf("%w: %w", errPortTaken, err)
			}
			return err
		default:
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s does not answer at %s:\n%s", s.binary, s.Address, s.output)
}

func listens(network, address string) bool {
	c, err := net.DialTimeout(network, address, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// Kill ends the server at once, if it runs.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.stopped
		s.cmd = nil
	}
}

// Pause stops the server's process; it keeps its connections and answers nothing.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Continue ends a Pause.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Error(fmt.Errorf("%v: %w", sig, err))
	}
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
