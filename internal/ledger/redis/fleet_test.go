package redis

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/ledgertest"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// The test binary is also the processes of a fleet: each enters what it reads, a case a line, and says a
// line when that is on the server.
const memberEnv = "VERDICT_LEDGER_TEST_MEMBER"

func TestMain(m *testing.M) {
	if address := os.Getenv(memberEnv); address != "" {
		l, err := New(Options{Server: at(address), Prefix: "fleet:", Timeout: patience})
		if err != nil {
			panic(err)
		}
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			l.Enter(ledger.Entry{CaseID: in.Text(), Upstream: "app"})
			for waiting := 1; waiting > 0; time.Sleep(time.Millisecond) {
				waiting, _ = l.Waiting()
			}
			fmt.Println(in.Text())
		}
		if l.Close() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// spawn starts a process that enters cases named after it without end, and returns what it has been told
// are on the server.
func spawn(t *testing.T, name, address string) (process *exec.Cmd, entered func() []string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), memberEnv+"="+address, "GOMAXPROCS=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []string
	var running sync.WaitGroup
	stop := make(chan struct{})
	running.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				in.Close()
				return
			case <-time.After(2 * time.Millisecond):
			}
			if _, err := fmt.Fprintf(in, "%s-%d\n", name, i); err != nil {
				return
			}
		}
	})
	running.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			mu.Lock()
			all = append(all, lines.Text())
			mu.Unlock()
		}
	})
	end := sync.OnceFunc(func() {
		close(stop)
		running.Wait()
		if err := c.Wait(); err != nil && c.ProcessState.ExitCode() > 0 {
			t.Errorf("%s: %v", name, err)
		}
	})
	t.Cleanup(end)
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), all...)
	}
}

// Processes are killed, and the server is killed and started again with what it saved: whatever was on it
// is there, once; and none of what was entered is lost but what waited in a process that was killed.
func TestFleet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t), "--appendonly", "yes", "--appendfsync", "always")
	watcher := mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:"})
	victim, victims := spawn(t, "victim", server.Address)
	_, others := spawn(t, "other", server.Address)
	ledgertest.Eventually(t, "both enter", func() bool { return len(victims()) > 20 && len(others()) > 20 })
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Restart()
	mark := len(others())
	ledgertest.Eventually(t, "the other one goes on", func() bool { return len(others()) > mark+20 })
	known := append(victims(), others()...)
	page, err := watcher.List(t.Context(), ledger.Filter{}, 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for _, c := range page.Cases {
		listed[c.GetCaseId()]++
	}
	for _, id := range known {
		if listed[id] != 1 {
			t.Errorf("%s is there %d times", id, listed[id])
		}
	}
	unknown := 0
	for id := range listed {
		if strings.HasPrefix(id, "victim") {
			unknown++
		}
	}
	t.Logf("%d and %d entered; of the one that was killed %d are there", len(victims()), len(others()), unknown)
}

// A master dies: the ledger goes on at its replica.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	sentinel, master, replica := redistest.StartFailover(t, redistest.Binary(t))
	o := at(sentinel)
	o.SentinelMaster = "m"
	l := mustNew(t, Options{Server: o, Prefix: "fleet:", Timeout: time.Second})
	enter(l, "before", 5)
	settle(t, l)
	raw := redistest.Dial(t, replica.Address)
	ledgertest.Eventually(t, "the replica has them", func() bool { return raw.Do("HLEN", "fleet:ledger:cases") == int64(5) })
	master.Kill()
	enter(l, "during", 5)
	ledgertest.Eventually(t, "the replica is the master", func() bool { return strings.Contains(redistest.Role(replica.Address), "master") })
	enter(l, "after", 5)
	settle(t, l)
	page, err := l.List(t.Context(), ledger.Filter{}, 0, 100)
	if err != nil || len(page.Cases) != 15 {
		t.Errorf("%q, %v", ledgertest.IDs(page.Cases), err)
	}
}

// Two processes say of one case what they know, and resolve it, all at once: nothing that was said is lost.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t))
	var pair [2]*Ledger
	for i := range pair {
		pair[i] = mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:"})
	}
	for round := range 10 {
		id := fmt.Sprint("c", round)
		pair[0].Enter(ledger.Entry{CaseID: id})
		settle(t, pair[0])
		var work sync.WaitGroup
		for i, l := range pair {
			work.Go(func() {
				for n := range 20 {
					e := ledger.Entry{CaseID: id, Attempts: 2*n + i}
					if i == 0 {
						e.Key = "k"
					} else {
						e.Operation = "pay"
					}
					l.Enter(e)
					time.Sleep(time.Millisecond)
				}
			})
			for state := retryv1.CaseState(2); state <= 4; state++ {
				work.Go(func() {
					if c, err := l.Resolve(t.Context(), id, state, fmt.Sprint(state, i)); err != nil || c.GetState() != state {
						t.Errorf("%v, %v", c, err)
					}
				})
			}
		}
		work.Wait()
		for _, l := range pair {
			settle(t, l)
		}
		c, err := pair[1].Get(t.Context(), id)
		if err != nil || c.GetIdempotencyKey() != "k" || c.GetOperation() != "pay" || c.GetAttempts() != 39 || !strings.HasPrefix(c.GetNote(), c.GetState().String()) || c.GetState() < 2 {
			t.Errorf("%v, %v", c, err)
		}
	}
	page, err := pair[0].List(t.Context(), ledger.Filter{State: retryv1.CaseState_CASE_STATE_OPEN}, 0, 100)
	if err != nil || len(page.Cases) != 0 {
		t.Errorf("open: %q, %v", ledgertest.IDs(page.Cases), err)
	}
}

// A watcher sees what other processes enter and resolve, goes on after Redis was away, and is told how much
// it has missed.
func TestWatchTheFleet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t), "--appendonly", "yes", "--appendfsync", "always")
	proxy := redistest.NewProxy(t, server.Address)
	here := mustNew(t, Options{Server: at(proxy.Address()), Prefix: "fleet:"})
	there := mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:", keep: 100})
	var mu sync.Mutex
	var told []string
	var missed uint64
	done := make(chan error, 1)
	enough := errors.New("enough")
	go func() {
		done <- here.Watch(t.Context(), ledger.Filter{}, func(c *ledger.Case, m uint64) error {
			if c.GetCaseId() == "the last" {
				return enough
			}
			mu.Lock()
			defer mu.Unlock()
			told, missed = append(told, c.GetCaseId()+" "+c.GetNote()), m
			return nil
		})
	}()
	seen := func(what string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(told) > 0 && told[len(told)-1] == what
		}
	}
	n := 0
	ledgertest.Eventually(t, "somebody watches", func() bool {
		n++
		there.Enter(ledger.Entry{CaseID: fmt.Sprint(n)})
		mu.Lock()
		defer mu.Unlock()
		return len(told) > 0
	})
	there.Enter(ledger.Entry{CaseID: "a"})
	ledgertest.Eventually(t, "entered by another process", seen("a "))
	if _, err := there.Resolve(t.Context(), "a", executed, "asked"); err != nil {
		t.Fatal(err)
	}
	ledgertest.Eventually(t, "resolved by another process", seen("a asked"))

	server.Kill()
	server.Restart()
	there.Enter(ledger.Entry{CaseID: "b"})
	ledgertest.Eventually(t, "after a restart", seen("b "))

	proxy.Set(redistest.Swallowing)
	mu.Lock()
	before := len(told)
	mu.Unlock()
	const many = 1000
	enter(there, "many", many)
	settle(t, there)
	proxy.Set(redistest.Passing)
	ledgertest.Eventually(t, "after a partition", seen(fmt.Sprint("many", many-1, " ")))
	mu.Lock()
	if got := len(told) - before + int(missed); missed == 0 || got != many {
		t.Errorf("%d told, %d missed, want %d in all", len(told)-before, missed, many)
	}
	mu.Unlock()

	redistest.Dial(t, server.Address).Do("FLUSHALL")
	ledgertest.Eventually(t, "after all was lost", func() bool {
		there.Enter(ledger.Entry{CaseID: "the last", Attempts: n})
		n++
		select {
		case err := <-done:
			return err == enough
		default:
			return false
		}
	})
	if last, err := there.store.last(t.Context()); err != nil || last >= many/2 {
		t.Errorf("it took %d events, %v", last, err)
	}
}
