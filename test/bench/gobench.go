package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/verdictproxy/verdict/test/stack"
)

// rounds in which the benchmarks of a package run, all of them in each: what is compared is a few
// seconds apart.
const goRounds = 5

// figures are the values of each round, by the benchmark's name and the unit.
type figures map[string]map[string][]float64

// goBench runs the benchmarks of a package of this module that match the pattern.
func (b *bench) goBench(pkg, pattern, benchtime string) figures {
	b.Helper()
	root, err := stack.Root()
	b.must(err)
	dir := filepath.Join(root, pkg)
	binary := filepath.Join(b.dir, filepath.Base(pkg)+".test")
	compile := exec.Command("go", "test", "-c", "-o", binary, ".")
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		b.Fatalf("bench: go test -c ./%s: %v\n%s", pkg, err, out)
	}
	all := figures{}
	for range goRounds {
		cmd := exec.Command(binary, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+benchtime)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("bench: benchmarks of ./%s: %v\n%s", pkg, err, out)
		}
		all.read(out)
	}
	return all
}

func (f figures) read(out []byte) {
	r := benchfmt.NewReader(bytes.NewReader(out), "")
	for r.Scan() {
		result, ok := r.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := strings.TrimSuffix(result.Name.String(), fmt.Sprintf("-%d", runtime.GOMAXPROCS(0)))
		if f[name] == nil {
			f[name] = map[string][]float64{}
		}
		for _, v := range result.Values {
			f[name][v.Unit] = append(f[name][v.Unit], v.Value)
		}
	}
}

// of returns the values of a benchmark, one for each round.
func (b *bench) of(f figures, name, unit string) []float64 {
	b.Helper()
	values := f[name][unit]
	if len(values) != goRounds {
		b.Fatalf("bench: %d values of %s in %s, want %d", len(values), name, unit, goRounds)
	}
	return values
}

// nanoseconds is the median time of one operation.
func (b *bench) nanoseconds(f figures, name string) float64 {
	b.Helper()
	return 1e9 * median(b.of(f, name, "sec/op"))
}

// ratios divides round by round.
func ratios(over, under []float64) []float64 {
	list := make([]float64, len(over))
	for i := range list {
		list[i] = over[i] / under[i]
	}
	return list
}

func (b *bench) decide() {
	f := b.goBench("pkg/decision", "^Benchmark(Decide|Naive)$", "50ms")
	var allocations, nanoseconds []float64
	fmt.Printf("%-20s %10s %10s %12s\n", "path", "Decide", "naive", "allocations")
	for _, path := range []string{"retry", "retry_after", "denied_by_rule_1", "denied_by_rule_9", "ambiguous", "complete"} {
		ns, allocs := b.nanoseconds(f, "Decide/"+path), median(b.of(f, "Decide/"+path, "allocs/op"))
		fmt.Printf("%-20s %7.0f ns %7.1f ns %12.0f\n", path, ns, b.nanoseconds(f, "Naive/"+path), allocs)
		allocations, nanoseconds = append(allocations, allocs), append(nanoseconds, ns)
	}
	b.summary.atMost("Decide: allocations, worst path", 0, []float64{slices.Max(allocations)}, "")
	b.summary.inform("Decide: time, about 150 ns expected", fmt.Sprintf("%.0f to %.0f ns, by path", slices.Min(nanoseconds), slices.Max(nanoseconds)))
}

func (b *bench) budget() {
	f := b.goBench("pkg/budget/memory", "^Benchmark(TryWithdraw|TryWithdrawRatio|Upstreams|Processors)$", "100ms")
	worst := 0.0
	fmt.Printf("%-20s %12s %12s  %-20s %12s\n", "path", "TryWithdraw", "rate.Allow", "ratio", "allocations")
	for _, path := range []string{"granted-earned", "granted-reserve", "refused"} {
		name := "TryWithdraw/path=" + path
		ratio := b.of(f, "TryWithdrawRatio/path="+path, "of-Allow")
		allocs := median(b.of(f, name+"/impl=verdict", "allocs/op"))
		fmt.Printf("%-20s %9.1f ns %9.1f ns  %-20s %12.0f\n", path,
			b.nanoseconds(f, name+"/impl=verdict"), b.nanoseconds(f, name+"/impl=rate"), spread(ratio), allocs)
		worst = max(worst, allocs)
		b.summary.atMost("TryWithdraw, "+path+", over rate.Limiter.Allow", 1, ratio, " x")
	}
	b.summary.atMost("TryWithdraw: allocations, worst path", 0, []float64{worst}, "")

	one := b.of(f, "Upstreams/goroutines=1/upstreams=1", "sec/op")
	same := ratios(one, b.of(f, "Upstreams/goroutines=2/upstreams=1", "sec/op"))
	two := ratios(one, b.of(f, "Upstreams/goroutines=2/upstreams=2", "sec/op"))
	nothing := ratios(b.of(f, "Processors/goroutines=1", "sec/op"), b.of(f, "Processors/goroutines=2", "sec/op"))
	fmt.Printf("throughput of 2 goroutines over 1: on one upstream %s, on two %s, sharing nothing %s\n",
		spread(same), spread(two), spread(nothing))
	b.summary.atLeast("TryWithdraw: 2 goroutines on 2 upstreams over 1 on 1", 1.3, two, " x")
	b.summary.inform("2 goroutines that share nothing over 1", spread(nothing)+", 2 where both processors are free")
}
