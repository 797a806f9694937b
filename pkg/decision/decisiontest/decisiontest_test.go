package decisiontest

import (
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// TestParseCase sets every key to a value that is not the default's.
func TestParseCase(t *testing.T) {
	const line = "evidence=PARTIAL_RESPONSE status=503 permanent=certificate class=safe body=ONE_SHOT " +
		"early_data=sent credential=refreshed attempt=2 earlier=NOT_EXECUTED,certain previous_wait=1ms " +
		"delivery=delivered deadline=2s max_wait=3s retry_after=4s budget=empty runtime=draining " +
		"max_attempts=5 min_attempt_budget=6ms base=7ms max_backoff=8s jitter=decorrelated retry_after_cap=9s " +
		"transient=500,599 distrusted=408 replay_on_401=idempotent r=0.25"
	got, err := ParseCase(line)
	if err != nil {
		t.Fatal(err)
	}
	want := Case{
		Facts: decision.Facts{
			Evidence:     decision.PartialResponse,
			Status:       503,
			Permanent:    decision.Certificate,
			Idempotency:  decision.Safe,
			Body:         decision.OneShot,
			EarlyData:    decision.EarlyDataSent,
			Credential:   decision.CredentialRefreshed,
			Attempt:      2,
			Earlier:      decision.Earlier{Execution: decision.NotExecuted, Certainty: decision.OutcomeCertain},
			PreviousWait: time.Millisecond,
			Delivery:     decision.Delivered,
			Deadline:     decision.DeadlineKnown,
			Remaining:    2 * time.Second,
			MaxWait:      3 * time.Second,
			RetryAfter:   4 * time.Second,
			Budget:       decision.BudgetEmpty,
			Runtime:      decision.RuntimeDraining,
		},
		Policy: decision.Policy{
			MaxAttempts:      5,
			MinAttemptBudget: 6 * time.Millisecond,
			Backoff:          decision.Backoff{Base: 7 * time.Millisecond, Max: 8 * time.Second, Jitter: decision.DecorrelatedJitter},
			RetryAfterCap:    9 * time.Second,
			ReplayOn401:      decision.ReplayIdempotent,
		},
		R: 0.25,
	}
	want.Policy.Transient.Add(500)
	want.Policy.Transient.Add(599)
	want.Policy.Distrusted.Add(408)
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for key := range setters {
		if !strings.Contains(" "+line, " "+key+"=") {
			t.Errorf("%s is not on the line", key)
		}
	}
}

func TestParseCaseErrors(t *testing.T) {
	for line, place := range map[string]string{
		"evidense=NOT_SENT":             "evidense=NOT_SENT",
		"evidence=not_sent":             "evidence=not_sent",
		"evidence":                      "evidence",
		"status=2xx":                    "status=2xx",
		"class=unknown":                 "class=unknown",
		"attempt=1 attempt=2":           "attempt=2",
		"earlier=UNKNOWN":               "earlier=UNKNOWN",
		"deadline=soon":                 "deadline=soon",
		"deadline=5":                    "deadline=5",
		"transient=500,200":             "transient=500,200",
		"distrusted=":                   "distrusted=",
		"replay_on_401=non_idempotent":  "replay_on_401=non_idempotent",
		"r=half":                        "r=half",
		"status=200 retry_after=4 r=.1": "retry_after=4",
	} {
		if c, err := ParseCase(line); err == nil || !strings.HasPrefix(err.Error(), place+": ") || c != (Case{}) {
			t.Errorf("%q: %v", line, err)
		}
	}
	if c, err := ParseCase(" "); err != nil || c != Default() {
		t.Errorf("the empty line: %v", err)
	}
}
