package decision

import "testing"

// TestOutsideTheEnums: a value that an enum does not have reads as its zero value; where the zero
// value means that there is no news of trouble, it is trouble.
func TestOutsideTheEnums(t *testing.T) {
	axes := []axis{evidenceAxis(), classAxis(),
		along("attempt", func(s *situation, n int) { s.facts.Attempt = n }, 1, 2),
		along("status", func(s *situation, status int) { s.facts.Status = status }, 0, 200, 401, 404, 408, 425, 429, 500, 503),
	}
	base := passing()
	base.facts.Credential, base.facts.EarlyData = CredentialRefreshable, EarlyDataNotSent
	base.facts.Earlier = Earlier{NotExecuted, OutcomeCertain}
	for _, tc := range []struct {
		name string
		last int
		set  func(s *situation, i int)
		want Reason // ReasonNone: as the zero value
	}{
		{"evidence", int(PartialResponse), func(s *situation, i int) { s.facts.Evidence = Evidence(i) }, ReasonNone},
		{"class", int(Safe), func(s *situation, i int) { s.facts.Idempotency = Idempotency(i) }, ReasonNone},
		{"body", int(Replayable), func(s *situation, i int) { s.facts.Body = Replayability(i) }, ReasonNone},
		{"early data", int(EarlyDataSent), func(s *situation, i int) { s.facts.EarlyData = EarlyData(i) }, ReasonNone},
		{"credential", int(CredentialRefreshed), func(s *situation, i int) { s.facts.Credential = Credential(i) }, ReasonNone},
		{"earlier execution", int(Executed), func(s *situation, i int) { s.facts.Earlier.Execution = Execution(i) }, ReasonNone},
		{"earlier certainty", int(OutcomeUncertain), func(s *situation, i int) { s.facts.Earlier.Certainty = Certainty(i) }, ReasonNone},
		{"delivery", int(Delivered), func(s *situation, i int) { s.facts.Delivery = Delivery(i) }, ReasonNone},
		{"deadline", int(DeadlineKnown), func(s *situation, i int) { s.facts.Deadline = DeadlineState(i) }, ReasonNone},
		{"budget", int(BudgetEmpty), func(s *situation, i int) { s.facts.Budget = BudgetState(i) }, ReasonNone},
		{"401 replay", int(ReplayIdempotent), func(s *situation, i int) { s.policy.ReplayOn401 = ReplayOn401(i) }, ReasonNone},
		{"jitter", int(DecorrelatedJitter), func(s *situation, i int) { s.policy.Backoff.Jitter = Jitter(i) }, ReasonNone},
		{"permanent", int(RequestInvalid), func(s *situation, i int) { s.facts.Permanent = Permanent(i) }, ReasonPermanentFailure},
		{"runtime", int(RuntimeDraining), func(s *situation, i int) { s.facts.Runtime = RuntimeState(i) }, ReasonRuntimeDraining},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := base
			tc.set(&base, 0)
			enumerate(base, axes...).each(func(_ int, zero *situation) {
				tc.set(zero, 0)
				want := zero.decide()
				for i := tc.last + 1; i <= 255; i++ {
					outside := *zero
					tc.set(&outside, i)
					got := outside.decide()
					switch {
					case tc.want == ReasonNone && got != want,
						tc.want != ReasonNone && got.Verdict != Complete && got.Reason != tc.want:
						t.Fatalf("%d: %+v\nzero: %+v\nat %+v", i, got, want, outside)
					}
				}
			})
		})
	}
}

func TestExecutionMax(t *testing.T) {
	for a := range 256 {
		for b := range 256 {
			known := func(i int) int { return max(rank(Execution(i)), -1) }
			got := Execution(a).Max(Execution(b))
			want := ExecutionUnknown
			if known(a) >= 0 && known(b) >= 0 {
				want = []Execution{NotExecuted, Executed, ExecutionUnknown}[max(known(a), known(b))]
			}
			if got != want {
				t.Fatalf("%v.Max(%v) = %v, want %v", Execution(a), Execution(b), got, want)
			}
		}
	}
}
