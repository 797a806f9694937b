package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

const (
	// Many short rounds: what else the machine does changes more slowly than the sides do.
	judgeRounds      = 31
	judgeRequests    = 1200 // of each side, in each round
	judgeConnections = 8
)

// side is one of the two ext_proc services that the same Envoy configuration calls.
type side struct {
	*stack.Stack
	get
	cpu, envoy, trip []float64 // microseconds for a request, one value for each round
}

// judge compares a denied decision with the echo: a GET that the upstream answers with 404, through the
// real Envoy with envoy/hop.yaml. Each side has an Envoy of its own, and the two take turns. The access
// log is switched off on both sides, so that all the work of the services is the judge's; its cost is
// shown by the healthy section. The echo's fixed header is the verdict, so the finalizer is called on
// neither side.
func (b *bench) judge() {
	up, err := startUpstream()
	b.must(err)
	defer up.listener.Close()
	echo := filepath.Join(b.dir, "echo")
	b.buildEcho(echo)
	verdict := b.startSide(b.extproc(), up)
	yardstick := b.startSide(echo, up)
	for round := range judgeRounds {
		// In turn, and each first as often as second.
		sides := []*side{verdict, yardstick}
		if round%2 == 1 {
			slices.Reverse(sides)
		}
		for _, s := range sides {
			b.must(s.round())
		}
	}
	asked := verdict.ExtProcStat("attempts", "streams_started")
	if want := judgeConnections + judgeRounds*judgeRequests; asked < want {
		b.Fatalf("bench: Envoy asked the judge %d times, want %d", asked, want)
	}
	fmt.Printf("%d rounds of %d requests, %d at once; microseconds for a request, median (and the middle half)\n", judgeRounds, judgeRequests, judgeConnections)
	fmt.Printf("%-22s  %-24s  %-24s  %s\n", "", "judge", "echo", "ratio, round by round")
	compare := func(what string, ours, theirs []float64) []float64 {
		ratio := ratios(ours, theirs)
		fmt.Printf("%-22s  %-24s  %-24s  %s\n", what, spread(ours), spread(theirs), spread(ratio))
		return ratio
	}
	cpu := compare("CPU of the service", verdict.cpu, yardstick.cpu)
	compare("CPU of Envoy", verdict.envoy, yardstick.envoy)
	trip := compare("round trip, p50", verdict.trip, yardstick.trip)
	b.summary.atMost("judge denies: CPU of the service over the echo's", 1.25, cpu, " x")
	b.summary.atMost("judge denies: round trip over that with the echo", 1.15, trip, " x")
}

func (b *bench) startSide(binary string, up *upstream) *side {
	b.Helper()
	s := stack.Start(b, stack.Options{
		Extproc:     binary,
		ExtprocArgs: []string{"--log-level", "info"},
		Patches: []stack.Patch{appAt(up), stack.NewPatch("no access log",
			stack.Remove(stack.HCM("attempts")+"/access_log"))},
	})
	g := get{s.Addr, "/404", "404", "x-retry-verdict: denied"}
	_, err := g.load(judgeConnections, judgeRequests/4) // warm
	b.must(err)
	return &side{Stack: s, get: g}
}

func (s *side) round() error {
	used, err := measure(s.get, judgeConnections, judgeRequests, s.ServicePID(0), s.EnvoyPID())
	if err != nil {
		return err
	}
	s.cpu, s.envoy, s.trip = append(s.cpu, used.cpu[0]), append(s.envoy, used.cpu[1]), append(s.trip, used.trip)
	return nil
}

// used is what one request of a load took, in microseconds.
type used struct {
	cpu  []float64 // of each process
	trip float64   // median
}

// measure loads and looks at the CPU clocks of the processes before and after.
func measure(g get, connections, n int, pids ...int) (used, error) {
	var before []time.Duration
	for _, pid := range pids {
		t, err := cpuTime(pid)
		if err != nil {
			return used{}, err
		}
		before = append(before, t)
	}
	trips, err := g.load(connections, n)
	if err != nil {
		return used{}, err
	}
	u := used{trip: micro(median(trips))}
	for i, pid := range pids {
		t, err := cpuTime(pid)
		if err != nil {
			return used{}, err
		}
		u.cpu = append(u.cpu, micro(t-before[i])/float64(len(trips)))
	}
	return u, nil
}

func micro(d time.Duration) float64 { return float64(d) / 1e3 }

// appAt lets Envoy find the benchmarks' own upstream.
func appAt(up *upstream) stack.Patch {
	host, port := up.hostPort()
	return stack.NewPatch("the upstream of the benchmarks", stack.Set(stack.Cluster("app")+"/load_assignment", fmt.Sprintf(
		"{cluster_name: app, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %d}}}}]}]}", host, port)))
}

// extproc builds the service once.
func (b *bench) extproc() string {
	b.Helper()
	if b.service == "" {
		binary, err := stack.BuildExtproc(b.dir)
		b.must(err)
		b.service = binary
	}
	return b.service
}

func (b *bench) buildEcho(binary string) {
	b.Helper()
	root, err := stack.Root()
	b.must(err)
	cmd := exec.Command("go", "build", "-o", binary, "./test/bench/echo")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("bench: go build ./test/bench/echo: %v\n%s", err, out)
	}
}
