package app

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The clock is the machine's, to far less than what the budget's dating allows for.
func TestMachineClock(t *testing.T) {
	machine := func() int64 {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			t.Fatal(err)
		}
		return now.Nano()
	}
	const allowed = int64(time.Millisecond)
	for range 1000 {
		before, now, after := machine(), machineClock(), machine()
		if now < before-allowed || now > after+allowed {
			t.Fatalf("%d is not between %d and %d", now, before, after)
		}
	}
}
