package decision

import (
	"math"
	"time"
)

// Jitter says how the wait is spread over the backoff's range.
type Jitter uint8

const (
	// FullJitter spreads the wait over [0, min(Max, Base x 2^(attempt-1))].
	FullJitter Jitter = iota
	// DecorrelatedJitter spreads the wait over [Base, min(Max, 3 x the previous wait)]. Where the
	// previous wait is not remembered, its widest possible value stands in: Base x 3^(attempt-1).
	DecorrelatedJitter
)

// Backoff spaces the attempts of a request.
type Backoff struct {
	Base, Max time.Duration
	Jitter    Jitter
}

// window is a range of waits, both ends included.
type window struct{ lo, hi time.Duration }

// at places r in [0,1) inside the window.
func (w window) at(r float64) time.Duration {
	if !(r > 0) { // NaN too
		return w.lo
	}
	if r >= 1 {
		return w.hi
	}
	width := w.hi - w.lo
	return w.lo + min(time.Duration(r*float64(width)), width) // float64(width) may be rounded up
}

// window returns the range of the wait that follows the given attempt.
func (b Backoff) window(attempt int, previous time.Duration) window {
	base, limit := max(b.Base, 0), max(b.Max, 0)
	base = min(base, limit)
	if b.Jitter == DecorrelatedJitter {
		if previous <= 0 {
			previous = grow(base, 3, attempt-1, limit)
		}
		return window{base, max(base, grow(previous, 3, 1, limit))}
	}
	return window{0, grow(base, 2, attempt-1, limit)}
}

// grow returns d x factor^times, at most limit.
func grow(d time.Duration, factor, times int, limit time.Duration) time.Duration {
	for range times {
		if d > limit/time.Duration(factor) {
			return limit
		}
		if d == 0 {
			break
		}
		d *= time.Duration(factor)
	}
	return min(d, limit)
}

// retryInTime says retry where the wait fits. Retry-After is a floor under the backoff, with jitter
// on top, so that a crowd that was sent away together does not come back together.
func retryInTime(f Facts, p Policy) outcome {
	w := p.Backoff.window(f.Attempt, f.PreviousWait)
	if floor := f.retryAfter(); floor > 0 {
		if floor > p.RetryAfterCap {
			return denied(ReasonRetryAfterTooLong)
		}
		spread := max(w.hi-w.lo, floor/2)
		w.lo = max(w.lo, floor)
		w.hi = addSaturating(w.lo, spread)
	}
	longest := f.longestWait(p)
	if w.lo > longest {
		return denied(ReasonDeadline)
	}
	w.hi = min(w.hi, longest)
	return outcome{verdict: Retry, wait: w}
}

// retryAfter returns the floor that the upstream asked for; it is read on 429 and 503 only (RFC 6585
// section 4, RFC 9110 section 10.2.3).
func (f Facts) retryAfter() time.Duration {
	answered := f.Evidence == ResponseReceived || f.Evidence == PartialResponse
	if answered && (f.Status == 429 || f.Status == 503) {
		return f.RetryAfter
	}
	return 0
}

// longestWait is what the deadline leaves after the minimum attempt budget, and what whoever executes
// the wait can hold. Below 0 no wait fits, not even none.
func (f Facts) longestWait(p Policy) time.Duration {
	longest := time.Duration(math.MaxInt64)
	if f.Deadline != DeadlineNone {
		longest = max(f.Remaining, 0) - max(p.MinAttemptBudget, 0)
	}
	if f.MaxWait != 0 {
		longest = min(longest, f.MaxWait)
	}
	return longest
}

func addSaturating(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
