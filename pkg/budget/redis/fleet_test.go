package redis

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/budgettest"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// A fleet is a server behind a proxy and processes that share its budget.
type fleet struct {
	*testing.T
	rnd      *rand.Rand
	dir      string
	server   *redistest.Server
	proxy    *redistest.Proxy
	sentinel string
	settings budget.Settings
	accounts int
	run      time.Duration
	born     int

	members []*exec.Cmd
	ended   sync.WaitGroup
}

func (f *fleet) spawn(run time.Duration, load time.Duration, failing float64) *exec.Cmd {
	f.born++
	name := fmt.Sprint("p", f.born)
	address := f.server.Address
	if f.proxy != nil {
		address = f.proxy.Address()
	}
	text, err := json.Marshal(member{
		Address: address, Sentinel: f.sentinel, Prefix: "fleet:", Log: filepath.Join(f.dir, name), Name: name, Seed: f.rnd.Uint64(),
		Settings: f.settings, Accounts: f.accounts, Load: load, Failing: failing, Run: run,
	})
	if err != nil {
		f.Fatal(err)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), memberEnv+"="+string(text), "GOMAXPROCS=1")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := c.Start(); err != nil {
		f.Fatal(err)
	}
	_, _ = bufio.NewReader(stdout).ReadString('\n') // it serves
	f.members = append(f.members, c)
	f.ended.Go(func() {
		_, _ = io.Copy(io.Discard, stdout)
		if err := c.Wait(); err != nil && c.ProcessState.ExitCode() > 0 {
			f.Errorf("%s: %v: %s", name, err, stderr.String())
		}
	})
	return c
}

// events is the log of all processes as one, by the machine's clock.
func (f *fleet) events() []budget.Event {
	f.Helper()
	var all []budget.Event
	files, _ := filepath.Glob(filepath.Join(f.dir, "p*"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				continue // torn by a kill: without effect
			}
			var e budget.Event
			if err := json.Unmarshal(line, &e); err != nil {
				f.Fatalf("%s: %q: %v", file, line, err)
			}
			if e.Grant != "" {
				e.Grant = e.Process + "/" + e.Grant
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(x, y budget.Event) int { return cmp.Compare(x.Mono, y.Mono) })
	return all
}

// check runs the law's checker over the fleet as one process.
func (f *fleet) check(events []budget.Event) error {
	var log bytes.Buffer
	for _, e := range events {
		e.Process = "fleet"
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		log.Write(append(line, '\n'))
	}
	return budgettest.Check(&log, same(f.settings))
}

// The law holds over a fleet of real processes on a real server, whatever is done to them.
func TestFleet(t *testing.T) {
	seeds, at := 24, 6
	if s := os.Getenv("SOAK"); s != "" {
		seeds = 400
		if n, err := strconv.Atoi(s); err == nil && n > 1 {
			seeds = n
		}
	}
	binaries := redistest.Binaries(t)
	names := make([]string, 0, len(binaries))
	for name := range binaries {
		names = append(names, name)
	}
	slices.Sort(names)
	var mu sync.Mutex
	grants, faults := map[budget.Source]int{}, map[string]int{}
	live := func(t *testing.T, seed int, binary string) {
		f := newFleet(t, uint64(seed), binary)
		done := f.live()
		events := f.events()
		if err := f.check(events); err != nil {
			t.Errorf("%v, %v: %v", f.settings, done, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range events {
			if e.Kind == budget.KindGrant {
				grants[e.Source]++
			}
		}
		for _, kind := range done {
			faults[kind]++
		}
	}
	// They mostly sleep, so more of them run at once than there are processors.
	var running sync.WaitGroup
	next := make(chan int)
	for range at {
		running.Go(func() {
			for seed := range next {
				name := names[seed%len(names)]
				t.Run(fmt.Sprintf("%d-%s", seed, name), func(t *testing.T) { live(t, seed, binaries[name]) })
			}
		})
	}
	for seed := range seeds {
		next <- seed
	}
	close(next)
	running.Wait()
	t.Logf("%d fleets, grants %v, faults %v", seeds, grants, faults)
	if grants[budget.SourceEarned] < 100*seeds || grants[budget.SourceReserve] < 20*seeds {
		t.Errorf("too few grants: %v", grants)
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 3)) }

func newFleet(t *testing.T, seed uint64, binary string) *fleet {
	r := newRand(seed)
	f := &fleet{T: t, rnd: r, dir: t.TempDir(), accounts: 1 + r.IntN(2), run: 5 * time.Second}
	f.settings = budget.Settings{Ratio: pick(r, 0, 200, 200, 1000, r.IntN(1001)), Reserve: pick(r, 0, 5, 20, 50), Interval: time.Second}
	f.server = redistest.Start(t, binary)
	f.proxy = redistest.NewProxy(t, f.server.Address)
	return f
}

// live lets the processes run, and does something to them or their server from time to time.
func (f *fleet) live() (done []string) {
	end := time.Now().Add(f.run)
	for range 3 + f.rnd.IntN(6) {
		f.spawnOne(end)
	}
	pause := pick(f.rnd, 500, 1000, 3000)
	for {
		time.Sleep(time.Duration(f.rnd.IntN(pause)) * time.Millisecond)
		if time.Until(end) < 200*time.Millisecond {
			break
		}
		kind := pick(f.rnd, "kill", "stop process", "flushall", "restart", "stop server", "cut", "delay", "drop replies", "script flush")
		done = append(done, kind)
		f.fault(kind, end)
	}
	f.proxy.Set(redistest.Passing)
	f.ended.Wait()
	return done
}

func (f *fleet) spawnOne(end time.Time) {
	load := time.Duration(pick(f.rnd, 2, 5, 20)) * time.Millisecond
	f.spawn(time.Until(end), load, pick(f.rnd, 0.1, 0.5, 0.9))
}

func (f *fleet) fault(kind string, end time.Time) {
	short := time.Duration(f.rnd.Int64N(int64(500 * time.Millisecond)))
	victim := f.members[f.rnd.IntN(len(f.members))]
	switch kind {
	case "kill":
		_ = victim.Process.Kill()
		f.spawnOne(end)
	case "stop process":
		_ = victim.Process.Signal(syscall.SIGSTOP)
		time.Sleep(3 * short)
		_ = victim.Process.Signal(syscall.SIGCONT)
	case "flushall", "script flush":
		command := map[string]string{"flushall": "FLUSHALL\r\n", "script flush": "SCRIPT FLUSH\r\n"}[kind]
		c, err := net.Dial("tcp", f.server.Address)
		if err != nil {
			f.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(c, command)
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "+OK") {
			f.Errorf("%s: %q, %v", kind, line, err)
		}
	case "restart":
		f.server.Kill()
		time.Sleep(short / 2)
		f.server.Restart()
	case "stop server":
		f.server.Pause()
		time.Sleep(short)
		f.server.Continue()
	default:
		f.proxy.Set(map[string]redistest.Mode{"cut": redistest.Cutting, "delay": redistest.Delaying, "drop replies": redistest.DroppingReplies}[kind])
		time.Sleep(short)
		f.proxy.Set(redistest.Passing)
	}
}
