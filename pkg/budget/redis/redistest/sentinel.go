package redistest

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
)

// StartFailover starts a master, a replica that follows it, and a Sentinel that alone decides and knows
// the master as "m". args are of master and replica.
func StartFailover(t testing.TB, binary string, args ...string) (sentinel string, master, replica *Server) {
	t.Helper()
	master = Start(t, binary, args...)
	_, port, _ := net.SplitHostPort(master.Address)
	replica = Start(t, binary, append(args, "--replicaof", "127.0.0.1 "+port, "--repl-diskless-sync-delay", "0")...)
	eventually(t, "the replica follows", func() bool { return strings.Contains(Role(replica.Address), "connected") })
	sentinel = startSentinel(t, binary, master.Address)
	first := Dial(t, sentinel)
	eventually(t, "the Sentinel knows the replica", func() bool { return len(first.Do("SENTINEL", "REPLICAS", "m").([]any)) == 1 })
	return sentinel, master, replica
}

func startSentinel(t testing.TB, binary, master string) string {
	t.Helper()
	address := freePort(t)
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
	c := exec.Command(binary, file, "--sentinel")
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

// Role is what a server says it is; "" if it does not answer, as when it has just changed.
func Role(address string) string {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return ""
	}
	defer c.Close()
	fmt.Fprint(c, "ROLE\r\nQUIT\r\n")
	text, _ := io.ReadAll(c)
	return string(text)
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("not in 20 s: %s", what)
}
