package decision

import (
	"testing"
	"time"
)

// benchmarkCases are one request for each way through the rules.
func benchmarkCases() map[string]situation {
	cases := map[string]situation{}
	add := func(name string, change func(s *situation)) {
		s := passing()
		s.r = 0.5
		change(&s)
		cases[name] = s
	}
	add("retry", func(s *situation) { s.facts.Evidence, s.facts.Status = ResponseReceived, 503 })
	add("retry_after", func(s *situation) {
		s.facts.Evidence, s.facts.Status, s.facts.RetryAfter = ResponseReceived, 429, time.Second
	})
	add("denied_by_rule_1", func(s *situation) { s.facts.Attempt = 3 })
	add("denied_by_rule_9", func(s *situation) { s.facts.Evidence, s.facts.Status = ResponseReceived, 404 })
	add("ambiguous", func(s *situation) { s.facts.Evidence, s.facts.Idempotency = SentNoResponse, NonIdempotent })
	add("complete", func(s *situation) { s.facts.Evidence, s.facts.Status = ResponseReceived, 200 })
	return cases
}

func TestDecideDoesNotAllocate(t *testing.T) {
	for name, s := range benchmarkCases() {
		if n := testing.AllocsPerRun(1000, func() { sink = s.decide() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

var sink Decision

// BenchmarkDecide stands beside what an HTTP client commonly does: look at status and attempts.
//
//	go test ./pkg/decision -run '^$' -bench 'Decide|Naive' -count 10 > new.txt
//	go tool benchstat -col .name new.txt
func BenchmarkDecide(b *testing.B) {
	for name, s := range benchmarkCases() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = Decide(s.facts, s.policy, s.r)
			}
		})
	}
}

func BenchmarkNaive(b *testing.B) {
	for name, s := range benchmarkCases() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = naive(s.facts, s.policy, s.r)
			}
		})
	}
}

// naive sends again whatever failed, while attempts last.
func naive(f Facts, p Policy, r float64) Decision {
	failed := f.Evidence != ResponseReceived || f.Status == 429 || f.Status >= 500
	if !failed || f.Attempt >= p.MaxAttempts {
		return Decision{Verdict: Denied}
	}
	wait := min(p.Backoff.Base<<(f.Attempt-1), p.Backoff.Max)
	return Decision{Verdict: Retry, Wait: time.Duration(r * float64(wait))}
}
