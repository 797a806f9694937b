package redis

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// timeless is script.lua with the time and the run id as arguments.
func timeless(t *testing.T) string {
	t.Helper()
	s := script
	for old, with := range map[string]string{
		"redis.call('TIME')": "{ KEYS[4], KEYS[5] }",
		"string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')": "KEYS[6]",
	} {
		if strings.Count(s, old) != 1 {
			t.Fatalf("script.lua has %q %d times", old, strings.Count(s, old))
		}
		s = strings.Replace(s, old, with, 1)
	}
	return s
}

// The simulation's model says and stores what the script does, call by call, through lives in which
// everything happens that may: clocks that step, stale epochs, repeats, damaged and missing keys.
func TestScriptIsItsModel(t *testing.T) {
	for name, binary := range redistest.Binaries(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := dial(t, redistest.Start(t, binary).Address)
			sha := r.Do("SCRIPT", "LOAD", timeless(t)).(string)
			leases, counted, epochs := 0, 0, 0
			for seed := range uint64(60) {
				l, c, e := compareScript(t, r, sha, seed)
				leases, counted, epochs = leases+l, counted+c, epochs+e
			}
			t.Logf("%d lots leased, %d calls that counted, %d epochs", leases, counted, epochs)
			if leases < 1000 || counted < 1000 || epochs < 200 {
				t.Error("that is too little to compare anything")
			}
		})
	}
}

func compareScript(t *testing.T, r raw, sha string, seed uint64) (leases, counted, epochs int) {
	rnd := rand.New(rand.NewPCG(seed, 4))
	now := int64(1_700_000_000_000_000)
	m := newModel(func() int64 { return now }, "run1")
	m.noExpiry = true
	known := []string{"", "", ""}
	sequence := 0
	for step := range 150 {
		switch rnd.IntN(30) {
		default:
			now += rnd.Int64N(20_000)
		case 0, 1:
			now += rnd.Int64N(700_000)
		case 2:
			now += rnd.Int64N(120_000_000)
		case 3:
			now -= rnd.Int64N(2_000_000)
		case 4:
			m.run = fmt.Sprintf("run%d", rnd.IntN(3))
		}
		keys := []string{fmt.Sprintf("s%d:a%d", seed, rnd.IntN(2)), fmt.Sprintf("s%d:e", seed), fmt.Sprintf("s%d:q%d", seed, rnd.IntN(2))}
		switch rnd.IntN(60) {
		case 0:
			k := keys[rnd.IntN(3)]
			r.Do("DEL", k)
			delete(m.keys, k)
		case 1:
			r.Do("SET", keys[0], "x")
			m.keys[keys[0]] = &entry{text: "x"}
		case 2:
			if e := m.keys[keys[0]]; e != nil && e.hash != nil {
				field, value := []string{"e5", "time", "r99999999999"}[rnd.IntN(3)], []string{"-1", "nan", "7"}[rnd.IntN(3)]
				if field == "time" && value == "7" {
					break // not damaged, only long ago
				}
				r.Do("HSET", keys[0], field, value)
				e.hash[field] = value
			}
		}
		interval := int64(1000)
		if rnd.IntN(12) == 0 {
			interval = 2000
		}
		cur := now / (interval * 20)
		sequence += rnd.IntN(4) - 1
		args := []string{
			strconv.FormatInt(interval, 10), strconv.Itoa([]int{0, 3, 20, 20, 20}[rnd.IntN(5)]), strconv.Itoa(max(sequence, 0)),
			known[rnd.IntN(3)], "0", "0", strconv.Itoa([]int{0, 1, 3, rnd.IntN(60)}[rnd.IntN(4)]), "",
		}
		if rnd.IntN(25) == 0 {
			args[4] = "1"
		}
		if rnd.IntN(10) > 0 {
			args[5] = strconv.FormatInt(now+100-rnd.Int64N(pick[int64](rnd, 1100, 101_000, 210_000)), 10)
		}
		n := rnd.IntN(5)
		args[7] = strconv.Itoa(n)
		for range n {
			milli := []int64{1e15, 1000, rnd.Int64N(3000)}[min(rnd.IntN(40), 2)]
			args = append(args, strconv.FormatInt(cur-rnd.Int64N(54)+2, 10), strconv.FormatInt(milli, 10))
		}
		for range rnd.IntN(3) {
			args = append(args, []string{"e", "r"}[rnd.IntN(2)], strconv.FormatInt(cur-rnd.Int64N(56)+3, 10), strconv.Itoa(1+rnd.IntN(4)))
		}
		want := m.eval(keys, args)
		all := append(keys[:3:3], strconv.FormatInt(now/1_000_000, 10), strconv.FormatInt(now%1_000_000, 10), m.run)
		got, err := r.Try(slices.Concat([]string{"EVALSHA", sha, "6"}, all, args)...)
		if err != nil {
			t.Fatalf("seed %d, step %d: %v: %v", seed, step, args, err)
		}
		if !reflect.DeepEqual(got, any(want)) {
			t.Fatalf("seed %d, step %d: %v:\nscript %v\nmodel  %v", seed, step, args, got, want)
		}
		stored := map[string]string{}
		for f, v := range r.Do("HGETALL", keys[0]).(map[string]any) {
			stored[f] = v.(string)
		}
		unequal := cmp.Diff(m.keys[keys[0]].hash, stored)
		if maps.Equal(m.keys[keys[0]].hash, stored) != (unequal == "") || unequal != "" {
			t.Fatalf("seed %d, step %d: %v: stored (-model +script):\n%s", seed, step, args, unequal)
		}
		leases += (len(want) - 6) / 3
		counted += int(want[3].(int64))
		if e := want[1].(string); e != known[0] {
			known = []string{e, known[0], ""}
			epochs++
		}
	}
	return leases, counted, epochs
}
