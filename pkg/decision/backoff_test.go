package decision

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"
)

const ms = time.Millisecond

var justBelowOne = math.Nextafter(1, 0)

// TestBackoffRange: the range of the wait behind each attempt.
func TestBackoffRange(t *testing.T) {
	full := Backoff{Base: 25 * ms, Max: time.Second, Jitter: FullJitter}
	decorrelated := Backoff{Base: 25 * ms, Max: time.Second, Jitter: DecorrelatedJitter}
	for _, tc := range []struct {
		teaches  string
		backoff  Backoff
		attempt  int
		previous time.Duration
		want     window
	}{
		{"full: base", full, 1, 0, window{0, 25 * ms}},
		{"full: doubled", full, 2, 0, window{0, 50 * ms}},
		{"full: doubled again", full, 3, 0, window{0, 100 * ms}},
		{"full: the last step below the maximum", full, 6, 0, window{0, 800 * ms}},
		{"full: the maximum", full, 7, 0, window{0, time.Second}},
		{"full: far beyond it", full, math.MaxInt, 0, window{0, time.Second}},
		{"full: the previous wait does not count", full, 2, 900 * ms, window{0, 50 * ms}},

		{"decorrelated: base to three times base", decorrelated, 1, 0, window{25 * ms, 75 * ms}},
		{"decorrelated: the previous wait forgotten", decorrelated, 2, 0, window{25 * ms, 225 * ms}},
		{"decorrelated: the previous wait, short", decorrelated, 2, 30 * ms, window{25 * ms, 90 * ms}},
		{"decorrelated: the previous wait, long", decorrelated, 2, 900 * ms, window{25 * ms, time.Second}},
		{"decorrelated: the previous wait shorter than base", decorrelated, 2, 1, window{25 * ms, 25 * ms}},
		{"decorrelated: a negative previous wait is forgotten", decorrelated, 2, -1, window{25 * ms, 225 * ms}},
		{"decorrelated: a third of what time can hold", decorrelated, 2, math.MaxInt64, window{25 * ms, time.Second}},
		{"decorrelated: far beyond the maximum", decorrelated, math.MaxInt, 0, window{25 * ms, time.Second}},

		{"base above the maximum", Backoff{Base: time.Minute, Max: time.Second}, 1, 0, window{0, time.Second}},
		{"base above the maximum, decorrelated", Backoff{time.Minute, time.Second, DecorrelatedJitter}, 1, 0, window{time.Second, time.Second}},
		{"zero", Backoff{}, 3, 0, window{}},
		{"zero base", Backoff{Max: time.Second}, math.MaxInt, 0, window{}},
		{"zero base, decorrelated", Backoff{Max: time.Second, Jitter: DecorrelatedJitter}, math.MaxInt, 0, window{}},
		{"zero maximum", Backoff{Base: time.Second}, 3, 0, window{}},
		{"negative", Backoff{Base: -time.Second, Max: -time.Second}, 3, 0, window{}},
		{"negative, decorrelated", Backoff{-time.Second, -time.Second, DecorrelatedJitter}, 3, 0, window{}},
		{"doubling would wrap", Backoff{Base: math.MaxInt64/2 + 1, Max: math.MaxInt64}, 2, 0, window{0, math.MaxInt64}},
		{"doubling nearly wraps", Backoff{Base: math.MaxInt64 / 2, Max: math.MaxInt64}, 2, 0, window{0, math.MaxInt64 - 1}},
		{"tripling would wrap", Backoff{math.MaxInt64/3 + 1, math.MaxInt64, DecorrelatedJitter}, 1, 0, window{math.MaxInt64/3 + 1, math.MaxInt64}},
		{"no attempt number", full, 0, 0, window{0, 25 * ms}},
		{"the least attempt number", full, math.MinInt, 0, window{0, time.Second}},
	} {
		t.Run(tc.teaches, func(t *testing.T) {
			if got := tc.backoff.window(tc.attempt, tc.previous); got != tc.want {
				t.Errorf("the wait is in %v, want %v", got, tc.want)
			}
		})
	}
}

// TestJitterPlaces r inside the range.
func TestJitterPlaces(t *testing.T) {
	widest := window{1, math.MaxInt64}
	for _, tc := range []struct {
		in   window
		r    float64
		want time.Duration
	}{
		{window{20, 120}, 0, 20},
		{window{20, 120}, 0.5, 70},
		{window{20, 120}, justBelowOne, 119},
		{window{20, 120}, 1, 120},
		{window{20, 120}, 1.5, 120},
		{window{20, 120}, math.Inf(1), 120},
		{window{20, 120}, -0.5, 20},
		{window{20, 120}, math.Inf(-1), 20},
		{window{20, 120}, math.NaN(), 20},
		{window{20, 120}, math.SmallestNonzeroFloat64, 20},
		{window{20, 20}, 0.5, 20},
		{window{}, justBelowOne, 0},
		{widest, 1, math.MaxInt64},
		{widest, 0, 1},
		{window{math.MaxInt64, math.MaxInt64}, justBelowOne, math.MaxInt64},
		{window{math.MaxInt64 - 1, math.MaxInt64}, justBelowOne, math.MaxInt64 - 1},
	} {
		if got := tc.in.at(tc.r); got != tc.want {
			t.Errorf("r = %v in %v is %d, want %d", tc.r, tc.in, got, tc.want)
		}
	}
	if got := widest.at(justBelowOne); got < widest.lo || got > widest.hi {
		t.Errorf("r just below 1 in %v is %d", widest, got)
	}
}

// TestWaitRange walks the attempts of a request and shows the range of each wait, with and without
// Retry-After.
func TestWaitRange(t *testing.T) {
	for _, tc := range []struct {
		jitter     Jitter
		retryAfter time.Duration
		remaining  time.Duration
		want       string
	}{
		{FullJitter, 0, time.Minute, "[0s, 25ms] [0s, 50ms] [0s, 100ms]"},
		{DecorrelatedJitter, 0, time.Minute, "[25ms, 75ms] [25ms, 225ms] [25ms, 675ms]"},
		{FullJitter, 2 * time.Second, time.Minute, "[2s, 3s] [2s, 3s] [2s, 3s]"},
		{DecorrelatedJitter, 2 * time.Second, time.Minute, "[2s, 3s] [2s, 3s] [2s, 3s]"},
		{FullJitter, 20 * ms, time.Minute, "[20ms, 45ms] [20ms, 70ms] [20ms, 120ms]"},
		{DecorrelatedJitter, 10 * ms, time.Minute, "[25ms, 75ms] [25ms, 225ms] [25ms, 675ms]"},
		{FullJitter, 10 * time.Second, time.Minute, "[10s, 15s] [10s, 15s] [10s, 15s]"},
		{FullJitter, 10*time.Second + 1, time.Minute, "denied(retry_after_too_long) denied(retry_after_too_long) denied(retry_after_too_long)"},
		{FullJitter, 0, 80 * ms, "[0s, 25ms] [0s, 30ms] [0s, 30ms]"},
		{FullJitter, 0, 50 * ms, "[0s, 0s] [0s, 0s] [0s, 0s]"},
		{FullJitter, 2 * time.Second, 2050 * ms, "[2s, 2s] [2s, 2s] [2s, 2s]"},
		{FullJitter, 2 * time.Second, 2050*ms - 1, "denied(deadline) denied(deadline) denied(deadline)"},
		{DecorrelatedJitter, 0, 74 * ms, "denied(deadline) denied(deadline) denied(deadline)"},
		{DecorrelatedJitter, 0, 100 * ms, "[25ms, 50ms] [25ms, 50ms] [25ms, 50ms]"},
	} {
		s := passing()
		s.policy.MaxAttempts = 4
		s.policy.Backoff.Jitter = tc.jitter
		s.facts.Evidence, s.facts.Status, s.facts.RetryAfter = ResponseReceived, 429, tc.retryAfter
		s.facts.Remaining = tc.remaining
		got := ""
		for attempt := 1; attempt < s.policy.MaxAttempts; attempt++ {
			s.facts.Attempt = attempt
			s.r = 0
			least := s.decide()
			s.r = 1
			most := s.decide()
			if attempt > 1 {
				got += " "
			}
			if least.Verdict == Retry {
				got += fmt.Sprintf("[%v, %v]", least.Wait, most.Wait)
			} else {
				got += written(least)
			}
		}
		if got != tc.want {
			t.Errorf("%v, Retry-After %v, %v left:\n%s, want\n%s", tc.jitter, tc.retryAfter, tc.remaining, got, tc.want)
		}
	}
}

// TestRetryAfterCounts with the statuses that define it, when they came from the upstream.
func TestRetryAfterCounts(t *testing.T) {
	s := passing()
	s.facts.RetryAfter = time.Second
	for status := range 700 {
		for _, e := range Evidences() {
			s.facts.Status, s.facts.Evidence = status, e
			d := s.decide()
			counts := (status == 429 || status == 503) && (e == ResponseReceived || e == PartialResponse)
			if d.Verdict == Retry && (d.Wait >= time.Second) != counts {
				t.Errorf("%s %d: waits %v", e, status, d.Wait)
			}
		}
	}
}

type left struct {
	state     DeadlineState
	remaining time.Duration
}

// timeGrid is what a wait is made of.
var timeGrid = sync.OnceValue(func() grid {
	const most = time.Duration(math.MaxInt64)
	base := passing()
	base.facts.Status = 429
	base.policy.MaxAttempts = math.MaxInt
	return enumerate(base,
		along("evidence", func(s *situation, e Evidence) { s.facts.Evidence = e }, NotSent, ResponseReceived),
		along("attempt", func(s *situation, n int) { s.facts.Attempt, s.facts.Earlier = n, Earlier{NotExecuted, OutcomeCertain} },
			1, 3, math.MaxInt-1),
		along("previous", func(s *situation, d time.Duration) { s.facts.PreviousWait = d }, 0, 100*ms),
		along("left", func(s *situation, l left) { s.facts.Deadline, s.facts.Remaining = l.state, l.remaining },
			left{DeadlineNone, 0}, left{DeadlineKnown, most}, left{DeadlineKnown, 12 * time.Second},
			left{DeadlineKnown, 2 * time.Second}, left{DeadlineKnown, 60 * ms}, left{DeadlineKnown, 50 * ms},
			left{DeadlineKnown, 1}, left{DeadlineKnown, 0}, left{DeadlineKnown, -1}, left{DeadlineKnown, math.MinInt64},
			left{DeadlineUnknown, most}),
		along("minimum", func(s *situation, d time.Duration) { s.policy.MinAttemptBudget = d }, math.MinInt64, 0, 50*ms, most),
		along("longest wait", func(s *situation, d time.Duration) { s.facts.MaxWait = d }, 0, most, 5*time.Second, ms, 1, -1),
		along("Retry-After", func(s *situation, d time.Duration) { s.facts.RetryAfter = d },
			-time.Second, 0, 1, time.Second, 10*time.Second, 10*time.Second+1, most),
		along("cap", func(s *situation, d time.Duration) { s.policy.RetryAfterCap = d }, most, 10*time.Second, 0, -1),
		along("backoff", func(s *situation, b Backoff) { s.policy.Backoff = b },
			Backoff{}, Backoff{25 * ms, time.Second, FullJitter}, Backoff{25 * ms, time.Second, DecorrelatedJitter},
			Backoff{time.Minute, time.Second, DecorrelatedJitter}, Backoff{most, most, FullJitter},
			Backoff{most, most, DecorrelatedJitter}, Backoff{-1, -1, DecorrelatedJitter}),
		along("r", func(s *situation, r float64) { s.r = r }, 0, 0.5, justBelowOne),
	)
})

// TestWaitFits: a wait is never longer than whoever executes it can hold, leaves the minimum attempt
// budget, and is never shorter than a Retry-After that counts; a retry whose wait cannot fit is denied.
func TestWaitFits(t *testing.T) {
	g := timeGrid()
	t.Log(g)
	g.always(t, func(s *situation, d Decision) bool {
		f, p := s.facts, s.policy
		minimum := max(p.MinAttemptBudget, 0)
		floor, rest := time.Duration(0), time.Duration(math.MaxInt64)
		if f.Evidence == ResponseReceived {
			floor = max(f.RetryAfter, 0)
		}
		if f.Deadline == DeadlineKnown {
			rest = max(f.Remaining, 0) - minimum
		}
		if f.MaxWait != 0 {
			rest = min(rest, f.MaxWait)
		}
		shortest := floor
		if p.Backoff.Jitter == DecorrelatedJitter {
			shortest = max(floor, min(p.Backoff.Base, p.Backoff.Max))
		}
		want := ReasonNone
		switch {
		case f.Deadline == DeadlineUnknown, f.Deadline == DeadlineKnown && (f.Remaining <= 0 || f.Remaining < minimum):
			want = ReasonDeadline
		case floor > 0 && floor > p.RetryAfterCap:
			want = ReasonRetryAfterTooLong
		case shortest > rest:
			want = ReasonDeadline
		}
		switch {
		case d.Reason != want:
			t.Errorf("the reason is %s, want %s", d.Reason, want)
		case d.Verdict != Retry:
			return true
		case d.Wait < 0, f.MaxWait > 0 && d.Wait > f.MaxWait,
			f.Deadline == DeadlineKnown && d.Wait > f.Remaining-minimum:
			t.Error("the wait does not fit")
		case d.Wait < floor:
			t.Error("the wait is shorter than Retry-After")
		case floor == 0 && d.Wait > max(p.Backoff.Max, 0):
			t.Error("the wait is longer than the backoff's maximum")
		default:
			return true
		}
		return false
	})
}

// TestLessTimeNeverLifts: less of any time, or a longer wish, never turns a no into a retry; a larger
// r never shortens a wait.
func TestLessTimeNeverLifts(t *testing.T) {
	g := timeGrid()
	for _, name := range []string{"left", "minimum", "longest wait", "cap"} {
		g.neverLifts(t, nil, name, g.axis(name).values...) // the axes run from best to worst
	}
	g.neverLifts(t, nil, "Retry-After", g.axis("Retry-After").values...)
	g.neverLifts(t, nil, "evidence", NotSent, ResponseReceived) // with Retry-After unread, and read
	longer := func(i, j int) bool { return g.decisions[i].Wait <= g.decisions[j].Wait }
	g.compare(t, "r", 0.0, 0.5, longer)
	g.compare(t, "r", 0.5, justBelowOne, longer)
}
