package decision

import (
	"math"
	"testing"
	"time"
)

func TestStatusSet(t *testing.T) {
	var all StatusSet
	for status := -1; status <= 1000; status++ {
		var one StatusSet
		inRange := status >= 400 && status <= 599
		if one.Add(status) != inRange || all.Add(status) != inRange {
			t.Errorf("Add(%d) is not %t", status, inRange)
		}
		for other := 399; other <= 600; other++ {
			if one.Has(other) != (inRange && other == status) {
				t.Errorf("the set of %d has %d: %t", status, other, one.Has(other))
			}
		}
	}
	for status := -1; status <= 1000; status++ {
		if all.Has(status) != (status >= 400 && status <= 599) {
			t.Errorf("the full set has %d: %t", status, all.Has(status))
		}
	}
	if all.Has(math.MinInt) || all.Has(math.MaxInt) {
		t.Error("the full set has what is no status")
	}
}

// TestDefaultPolicy holds the documented defaults.
func TestDefaultPolicy(t *testing.T) {
	want := Policy{
		MaxAttempts:      3,
		MinAttemptBudget: 50 * time.Millisecond,
		Backoff:          Backoff{Base: 25 * time.Millisecond, Max: time.Second, Jitter: FullJitter},
		RetryAfterCap:    10 * time.Second,
	}
	if got := DefaultPolicy(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestStatusSetIncludes(t *testing.T) {
	set := func(statuses ...int) (s StatusSet) {
		for _, status := range statuses {
			s.Add(status)
		}
		return s
	}
	for _, test := range []struct {
		s, other StatusSet
		want     bool
	}{
		{set(), set(), true}, {set(408), set(), true}, {set(), set(408), false}, {set(408), set(408), true},
		{set(408, 599), set(599), true}, {set(408), set(408, 599), false}, {set(408), set(429), false},
	} {
		if got := test.s.Includes(test.other); got != test.want {
			t.Errorf("%v includes %v: %v", test.s, test.other, got)
		}
	}
}
