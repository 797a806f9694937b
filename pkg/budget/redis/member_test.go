package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// The test binary is also the processes of the fleet.
const memberEnv = "VERDICT_BUDGET_TEST_MEMBER"

// A member is what one process of a fleet is told to be.
type member struct {
	Address  string
	Sentinel string // finds the server instead
	Prefix   string
	Log      string // file
	Name     string
	Seed     uint64
	Settings budget.Settings
	Accounts int
	Load     time.Duration // mean time between first attempts
	Failing  float64       // how many of them ask for a retry
	Run      time.Duration
}

// machineClock is one clock for all processes of the machine.
func machineClock() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// run is a member's life.
func (m member) run() error {
	f, err := os.OpenFile(m.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	o := Options{
		Server: at(m.Address), Prefix: m.Prefix, Clock: machineClock, Log: budget.NewEventLog(f, m.Name, nil),
	}
	if m.Sentinel != "" {
		o.Server.Addresses, o.Server.SentinelMaster = []string{m.Sentinel}, "m"
	}
	b, err := New(same(m.Settings), o)
	if err != nil {
		return err
	}
	defer b.Close()
	r := rand.New(rand.NewPCG(m.Seed, 7))
	var held []budget.Grant
	end := time.Now().Add(m.Run)
	fmt.Println("serving")
	for n := 0; time.Now().Before(end); n++ {
		a := b.Account(fmt.Sprint("u", r.IntN(m.Accounts)))
		k := 1 + r.IntN(3)
		a.Deposit(k)
		for range k {
			if r.Float64() < m.Failing {
				if g, ok := a.TryWithdraw(context.Background()); ok {
					held = append(held, g)
				}
			}
		}
		if len(held) > 0 && r.IntN(5) == 0 {
			g := held[len(held)-1-r.IntN(min(len(held), 10))]
			for range 2 {
				a.Return(g) // often to the wrong account, and always twice
			}
		}
		time.Sleep(time.Duration(r.Int64N(int64(2 * m.Load))))
	}
	return nil
}

// memberMain runs instead of the tests in a process of the fleet.
func memberMain() {
	var m member
	if err := json.Unmarshal([]byte(os.Getenv(memberEnv)), &m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := m.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
