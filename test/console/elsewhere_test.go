package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// alone is set in a process that has a network of its own, with nobody in it.
const alone = "VERDICT_TEST_ALONE"

// TestElsewhere: where other machines may reach the admin listener there is no console, unless the
// operator wants one. The service listens on all addresses, of a network that has no other machine.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), alone+"="+extproc)
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	}
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = "auto / 404\nauto /console/ 404\nauto /console/live 404\nauto /metrics 200\n" +
		"on / 303\non /console/ 200\non /console/live 200\non /metrics 200\n"
	if string(out) != want {
		t.Errorf("%s\nwant\n%s", out, want)
	}
}

// elsewhere is TestElsewhere's other process: it prints what is served.
func elsewhere(extproc string) error {
	if err := loopbackUp(); err != nil {
		return err
	}
	for _, flag := range []string{"auto", "on"} {
		if err := ask(extproc, flag); err != nil {
			return err
		}
	}
	return nil
}

func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up)
}

func ask(extproc, flag string) error {
	ctx, stop := context.WithTimeout(context.Background(), 3*limit)
	defer stop()
	var log strings.Builder
	service := exec.CommandContext(ctx, extproc, "serve", "--console", flag, "--data-plane=127.0.0.1:9002", "--admin=0.0.0.0:9003")
	service.Stderr = &log
	if err := service.Start(); err != nil {
		return err
	}
	defer func() {
		stop()
		service.Wait() // it was killed
	}()
	for {
		conn, err := net.Dial("tcp", "127.0.0.1:9003")
		if err == nil {
			conn.Close()
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w\n%s", err, &log)
		}
		time.Sleep(20 * time.Millisecond)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, path := range []string{"/", "/console/", "/console/live", "/metrics"} {
		resp, err := client.Get("http://127.0.0.1:9003" + path)
		if err != nil {
			return err
		}
		resp.Body.Close()
		fmt.Println(flag, path, resp.StatusCode)
	}
	return nil
}
