package redis

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// startSentinel starts a Sentinel that alone decides.
func startSentinel(t *testing.T, master string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	_, masterPort, _ := net.SplitHostPort(master)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf(`port %s
bind 127.0.0.1
dir %s
sentinel monitor m 127.0.0.1 %s 1
sentinel down-after-milliseconds m 500
sentinel failover-timeout m 5000
`, port, t.TempDir(), masterPort)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(redistest.Binary(t), file, "--sentinel")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	eventually(t, "the Sentinel answers", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return address
}

// role is what the server says it is; "" if it does not answer, as when it has just changed.
func role(address string) string {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return ""
	}
	defer c.Close()
	fmt.Fprint(c, "ROLE\r\nQUIT\r\n")
	text, _ := io.ReadAll(c)
	return string(text)
}

// A fleet behind a Sentinel whose master dies: it goes on at the replica, whose past is not believed.
// While both may have been masters, each may have spent the reserve.
func TestSentinelFailover(t *testing.T) {
	binary := redistest.Binary(t)
	master := redistest.Start(t, binary)
	_, port, _ := net.SplitHostPort(master.Address)
	replica := redistest.Start(t, binary, "--replicaof", "127.0.0.1 "+port, "--repl-diskless-sync-delay", "0")
	eventually(t, "the replica follows", func() bool { return strings.Contains(role(replica.Address), "connected") })
	f := &fleet{
		T: t, rnd: newRand(1), dir: t.TempDir(), accounts: 1, server: master,
		settings: budget.Settings{Ratio: 200, Reserve: 10, Interval: time.Second},
	}
	f.sentinel = startSentinel(t, master.Address)
	first := dial(t, f.sentinel)
	eventually(t, "the Sentinel knows the replica", func() bool { return len(first.do("SENTINEL", "REPLICAS", "m").([]any)) == 1 })
	const run = 9 * time.Second
	for range 4 {
		f.spawn(run, 4*time.Millisecond, 0.5)
	}
	time.Sleep(2 * time.Second)
	died := machineClock()
	master.Kill()
	eventually(t, "the replica is the master", func() bool { return strings.Contains(role(replica.Address), "master") })
	promoted := machineClock()
	f.ended.Wait()
	events := f.events()
	before, after, reserve := 0, 0, 0
	for _, e := range events {
		if e.Kind != budget.KindGrant {
			continue
		}
		if e.Mono < died {
			before++
		} else if e.Mono > promoted {
			after++
			if e.Source == budget.SourceReserve {
				reserve++
			}
		}
	}
	t.Logf("fail-over in %v; %d grants before, %d after, %d of them of the new master's reserve",
		time.Duration(promoted-died), before, after, reserve)
	if before < 50 || after < 50 || reserve < 10 {
		t.Error("too few grants")
	}
	f.settings.Reserve *= 2
	if err := f.check(events); err != nil {
		t.Error(err)
	}
}
