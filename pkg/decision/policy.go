package decision

import "time"

// Policy is what the operator declared for an upstream. The zero value permits nothing; begin with
// DefaultPolicy.
type Policy struct {
	// MaxAttempts counts all attempts of a request, the first included; at least 1.
	MaxAttempts int
	// MinAttemptBudget is the least remaining deadline with which another attempt is worth beginning.
	MinAttemptBudget time.Duration
	Backoff          Backoff
	// RetryAfterCap is the longest Retry-After that is waited for; beyond it the retry is denied,
	// never clamped.
	RetryAfterCap time.Duration
	// Transient are the 5xx statuses other than 502, 503 and 504 that this upstream sends for
	// passing trouble.
	Transient StatusSet
	// Distrusted are those of 408, 425 and 429 that this upstream may send after it has executed the
	// request, as a nested proxy does; they are judged like 502, 503 and 504.
	Distrusted StatusSet
	// ReplayOn401 opens the refresh-and-replay of a 401 to idempotent operations, with or without a
	// key. Safe operations have it always.
	ReplayOn401 ReplayOn401
}

// ReplayOn401 says which operations may be replayed with a refreshed credential.
type ReplayOn401 uint8

const (
	// ReplaySafe: safe operations only.
	ReplaySafe ReplayOn401 = iota
	// ReplayIdempotent: idempotent and idempotent_with_key operations too.
	ReplayIdempotent
)

// DefaultPolicy returns what holds for an upstream of which nothing was declared: 3 attempts, 50 ms
// minimum attempt budget, backoff 25 ms to 1 s with full jitter, Retry-After up to 10 s.
func DefaultPolicy() Policy {
	return Policy{
		MaxAttempts:      3,
		MinAttemptBudget: 50 * time.Millisecond,
		Backoff:          Backoff{Base: 25 * time.Millisecond, Max: time.Second, Jitter: FullJitter},
		RetryAfterCap:    10 * time.Second,
	}
}

// StatusSet is a set of HTTP status codes from 400 to 599.
type StatusSet [4]uint64

// Add puts status into the set and reports whether it is between 400 and 599.
func (s *StatusSet) Add(status int) bool {
	if status < 400 || status > 599 {
		return false
	}
	i := status - 400
	s[i/64] |= 1 << (i % 64)
	return true
}

// Has reports whether status is in the set.
func (s StatusSet) Has(status int) bool {
	if status < 400 || status > 599 {
		return false
	}
	i := status - 400
	return s[i/64]&(1<<(i%64)) != 0
}

// Includes reports whether every status of other is in the set too.
func (s StatusSet) Includes(other StatusSet) bool {
	for i := range s {
		if other[i]&^s[i] != 0 {
			return false
		}
	}
	return true
}
