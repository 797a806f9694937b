package decision

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// The fact space is enumerated as three grids, because its full product is beyond reach (some 1e14).
// Each is a full product of the axes that one group of rules reads, at base facts to which the other
// rules do not object:
//
//   - requestGrid, 1,800,000 points: what rules 8 and 9, execution and uncertain are made of;
//   - circumstanceGrid, 2,682,720 points: what rules 1 to 7 read, times every row of the matrix and
//     every class;
//   - timeGrid (backoff_test.go), 1,862,784 points: what the wait is made of.
//
// TestMatrix compares the first two with the specification's table, this file proves the laws on
// them, and enums_test.go tries every value that no enum has. What the grids leave open is a fact that
// changes an answer only in a combination across two of them: TestMatrixAcrossTheGrids draws such.

var everyStatus = []int{-1, 0, 99, 100, 101, 103, 200, 204, 304, 400, 401, 404, 408, 421, 425, 429, 499,
	500, 501, 502, 503, 504, 599, 600, 1 << 40}

func evidenceAxis() axis {
	return along("evidence", func(s *situation, e Evidence) { s.facts.Evidence = e },
		EvidenceUnknown, NotSent, SentNoResponse, ResponseReceived, PartialResponse)
}

func classAxis() axis {
	return along("class", func(s *situation, i Idempotency) { s.facts.Idempotency = i },
		IdempotencyUnknown, NonIdempotent, IdempotentWithKey, Idempotent, Safe)
}

// history is an attempt's place in its request.
type history struct {
	attempt int
	earlier Earlier
}

func historyAxis() axis {
	values := []history{{attempt: 1}}
	for _, e := range []Execution{ExecutionUnknown, NotExecuted, Executed} {
		for _, c := range []Certainty{CertaintyUnknown, OutcomeCertain, OutcomeUncertain} {
			values = append(values, history{2, Earlier{e, c}})
		}
	}
	return along("history", func(s *situation, h history) {
		s.facts.Attempt, s.facts.Earlier = h.attempt, h.earlier
	}, values...)
}

var requestGrid = sync.OnceValue(func() grid {
	return enumerate(passing(), evidenceAxis(), classAxis(), historyAxis(),
		along("status", func(s *situation, status int) { s.facts.Status = status }, everyStatus...),
		along("early data", func(s *situation, e EarlyData) { s.facts.EarlyData = e },
			EarlyDataUnknown, EarlyDataNotSent, EarlyDataSent),
		along("credential", func(s *situation, c Credential) { s.facts.Credential = c },
			CredentialNotOurs, CredentialRefreshable, CredentialRefreshed),
		along("Retry-After", func(s *situation, d time.Duration) { s.facts.RetryAfter = d },
			0, time.Second, 9*time.Second, 11*time.Second), // absent, fits, beyond the deadline, beyond the cap
		along("distrusted", func(s *situation, set StatusSet) { s.policy.Distrusted = set },
			StatusSet{}, statuses(408, 425, 429, 404, 500)), // 404 and 500 cannot be distrusted
		along("transient", func(s *situation, set StatusSet) { s.policy.Transient = set },
			StatusSet{}, statuses(500, 599, 400, 503)), // 400 and 503 cannot be registered
		along("401 replay", func(s *situation, r ReplayOn401) { s.policy.ReplayOn401 = r },
			ReplaySafe, ReplayIdempotent),
	)
})

var circumstanceGrid = sync.OnceValue(func() grid {
	type deadline struct {
		state     DeadlineState
		remaining time.Duration
	}
	type end struct {
		evidence Evidence
		status   int
	}
	ends := []end{{EvidenceUnknown, 0}, {NotSent, 0}, {SentNoResponse, 0}, {PartialResponse, 200}, {PartialResponse, 429}, {PartialResponse, 503}}
	for _, status := range []int{0, 99, 101, 200, 302, 401, 404, 408, 421, 425, 429, 500, 502, 503, 504, 599, 600} {
		ends = append(ends, end{ResponseReceived, status})
	}
	base := passing()
	base.facts.Credential, base.facts.EarlyData = CredentialRefreshable, EarlyDataNotSent
	base.policy.Transient = statuses(599)
	return enumerate(base, classAxis(),
		along("end", func(s *situation, e end) { s.facts.Evidence, s.facts.Status = e.evidence, e.status }, ends...),
		along("earlier", func(s *situation, e Earlier) { s.facts.Earlier = e },
			Earlier{}, Earlier{NotExecuted, OutcomeCertain}),
		along("attempt", func(s *situation, n int) { s.facts.Attempt = n }, 0, 1, 2),
		along("max attempts", func(s *situation, n int) { s.policy.MaxAttempts = n }, 3, 2, 0),
		along("budget", func(s *situation, b BudgetState) { s.facts.Budget = b },
			BudgetUnknown, BudgetAvailable, BudgetEmpty),
		along("body", func(s *situation, r Replayability) { s.facts.Body = r },
			ReplayabilityUnknown, OneShot, Reopenable, Replayable),
		along("delivery", func(s *situation, d Delivery) { s.facts.Delivery = d },
			DeliveryUnknown, NotDelivered, Delivered),
		along("runtime", func(s *situation, r RuntimeState) { s.facts.Runtime = r },
			RuntimeServing, RuntimeDraining),
		along("deadline", func(s *situation, d deadline) { s.facts.Deadline, s.facts.Remaining = d.state, d.remaining },
			deadline{DeadlineNone, 0}, deadline{DeadlineKnown, 5 * time.Second}, deadline{DeadlineKnown, 50 * time.Millisecond},
			deadline{DeadlineKnown, 50*time.Millisecond - 1}, deadline{DeadlineKnown, -time.Second}, deadline{DeadlineUnknown, 5 * time.Second}),
		along("permanent", func(s *situation, p Permanent) { s.facts.Permanent = p },
			PermanentNone, NoCluster, RequestInvalid),
	)
})

func nonIdempotent(s situation) bool {
	return s.facts.Idempotency == NonIdempotent || s.facts.Idempotency == IdempotencyUnknown
}

// rank is the order in which execution is a maximum.
func rank(e Execution) int {
	return slices.Index([]Execution{NotExecuted, Executed, ExecutionUnknown}, e)
}

func TestLawsOfEveryDecision(t *testing.T) {
	for _, g := range []grid{requestGrid(), circumstanceGrid()} {
		g.always(t, func(s *situation, d Decision) bool {
			if d.Verdict == Complete {
				return d == Decision{Verdict: Complete, Evidence: ResponseReceived, Execution: Executed}
			}
			later := s.facts.Attempt != 1
			switch {
			case d.Verdict == VerdictNone, d.Rule < 1, d.Rule > 9,
				d.Evidence == EvidenceUnknown, rank(d.Execution) < 0,
				(d.Reason == ReasonNone) != (d.Verdict == Retry),
				(d.Category != PermanentNone) != (d.Reason == ReasonPermanentFailure),
				d.Wait != 0 && d.Verdict != Retry:
				t.Error("the decision is not well-formed")
			case nonIdempotent(*s) && d.Verdict == Retry && d.Execution != NotExecuted:
				t.Error("a retry on a non-idempotent operation implies NOT_EXECUTED")
			case d.Verdict == Ambiguous && !(d.Uncertain && nonIdempotent(*s)):
				t.Error("an ambiguous verdict is uncertain, and a non-idempotent operation's")
			case d.Uncertain && s.facts.Idempotency == Safe:
				t.Error("a safe operation leaves nothing uncertain")
			case later && rank(d.Execution) < rank(s.facts.Earlier.Execution):
				t.Error("execution never falls when an attempt is added")
			case later && s.facts.Earlier.Certainty != OutcomeCertain && s.facts.Idempotency != Safe && !d.Uncertain:
				t.Error("an uncertain attempt stays uncertain when an attempt is added")
			default:
				return true
			}
			return false
		})
	}
}

// TestRulesOneToSeven: they change the verdict's word, never execution nor uncertain, and what an
// earlier rule forbade, nothing that only later rules read re-enables or renames.
func TestRulesOneToSeven(t *testing.T) {
	g := circumstanceGrid()
	for rule, name := range []string{1: "max attempts", 2: "budget", 3: "body", 4: "delivery", 5: "runtime", 6: "deadline", 7: "permanent"} {
		if rule == 0 {
			continue
		}
		values := g.axis(name).values
		for _, other := range values[1:] {
			g.compare(t, name, values[0], other, func(i, j int) bool {
				one, two := g.decisions[i], g.decisions[j]
				if one.Execution != two.Execution || one.Uncertain != two.Uncertain || one.Evidence != two.Evidence {
					return false
				}
				forbidden := one.Rule > 0 && one.Rule < rule || two.Rule > 0 && two.Rule < rule
				return !forbidden || one == two
			})
		}
	}
}

// TestWorseNeverLifts: what is worse never turns a no into a retry.
func TestWorseNeverLifts(t *testing.T) {
	g := requestGrid()
	g.neverLifts(t, nil, "class", Safe, Idempotent, IdempotentWithKey, NonIdempotent, IdempotencyUnknown)
	g.neverLifts(t, nil, "evidence", NotSent, SentNoResponse, EvidenceUnknown)
	g.neverLifts(t, nonIdempotent, "evidence", ResponseReceived, PartialResponse, SentNoResponse, EvidenceUnknown)
	g.neverLifts(t, nil, "Retry-After", time.Duration(0), time.Second, 9*time.Second, 11*time.Second)
	g.neverLifts(t, nil, "early data", EarlyDataNotSent, EarlyDataSent, EarlyDataUnknown)
	g.neverLifts(t, nil, "credential", CredentialRefreshable, CredentialRefreshed, CredentialNotOurs)
	g.neverLifts(t, nil, "401 replay", ReplayIdempotent, ReplaySafe)
	g.neverLifts(t, nil, "transient", statuses(500, 599, 400, 503), StatusSet{})
	g.neverLifts(t, nonIdempotent, "distrusted", StatusSet{}, statuses(408, 425, 429, 404, 500))
	for _, c := range []Certainty{OutcomeCertain, OutcomeUncertain, CertaintyUnknown} {
		g.neverLifts(t, nil, "history", history{attempt: 1}, history{2, Earlier{NotExecuted, c}},
			history{2, Earlier{Executed, c}}, history{2, Earlier{ExecutionUnknown, c}})
	}

	g = circumstanceGrid()
	g.neverLifts(t, nil, "max attempts", 3, 2, 0)
	g.neverLifts(t, nil, "attempt", 1, 2, 0)
	g.neverLifts(t, nil, "budget", BudgetAvailable, BudgetUnknown, BudgetEmpty)
	g.neverLifts(t, nil, "body", Replayable, Reopenable, OneShot, ReplayabilityUnknown)
	g.neverLifts(t, nil, "delivery", NotDelivered, DeliveryUnknown, Delivered)
	g.neverLifts(t, nil, "runtime", RuntimeServing, RuntimeDraining)
	g.neverLifts(t, nil, "deadline", g.axis("deadline").values...)
	g.neverLifts(t, nil, "permanent", PermanentNone, NoCluster, RequestInvalid)
}

// TestUnknownIsTheStrictest: an unknown value permits nothing that some value it may stand for does
// not. Left out are the facts of which absence is no news of trouble (see doc.go).
func TestUnknownIsTheStrictest(t *testing.T) {
	g := requestGrid()
	unknownLast := func(name string, where func(situation) bool, unknown any) {
		t.Helper()
		for _, known := range g.axis(name).values {
			g.neverLifts(t, where, name, known, unknown)
		}
	}
	unknownLast("class", nil, IdempotencyUnknown)
	unknownLast("evidence", nonIdempotent, EvidenceUnknown)
	unknownLast("early data", nil, EarlyDataUnknown)
	unknownLast("credential", nil, CredentialNotOurs)
	g.neverLifts(t, nil, "history", history{2, Earlier{NotExecuted, OutcomeCertain}}, history{2, Earlier{}})
	g.neverLifts(t, nil, "history", history{2, Earlier{Executed, OutcomeCertain}}, history{2, Earlier{}})
	// Unknown evidence on an idempotent operation is sent again as SENT_NO_RESPONSE is, though a 404 is not.
	g.compare(t, "evidence", SentNoResponse, EvidenceUnknown, func(i, j int) bool {
		return g.decisions[i].Verdict == g.decisions[j].Verdict && g.decisions[i].Uncertain == g.decisions[j].Uncertain
	})

	g = circumstanceGrid()
	unknownLast("body", nil, ReplayabilityUnknown)
	unknownLast("attempt", nil, 0)
	unknownLast("deadline", nil, g.axis("deadline").values[5])
	// Where no answer had begun to arrive, an unknown delivery cannot stand for Delivered.
	unknownLast("delivery", func(s situation) bool {
		return s.facts.Evidence == ResponseReceived || s.facts.Evidence == PartialResponse
	}, DeliveryUnknown)

	if d := Decide(Facts{}, DefaultPolicy(), 0); d.Verdict != Denied || d.Execution != ExecutionUnknown || !d.Uncertain {
		t.Errorf("no facts at all: %+v", d)
	}
	if s := passing(); Decide(s.facts, Policy{}, 0).Verdict != Denied {
		t.Error("the zero policy permits a retry")
	}
}

// TestEverythingFires: no rule, verdict, reason, category or execution is dead. The reasons that
// Decide never gives are those of Deny.
func TestEverythingFires(t *testing.T) {
	fired := map[any]int{}
	for _, g := range []grid{requestGrid(), circumstanceGrid()} {
		for _, d := range g.decisions {
			fired[d.Rule]++
			fired[d.Verdict]++
			fired[d.Reason]++
			fired[d.Execution]++
		}
	}
	for rule := range 10 {
		if fired[rule] == 0 {
			t.Errorf("rule %d never decides", rule)
		}
	}
	for _, v := range Verdicts() {
		if fired[v] == 0 {
			t.Errorf("the verdict is never %s", v)
		}
	}
	for _, e := range []Execution{NotExecuted, Executed, ExecutionUnknown} {
		if fired[e] == 0 {
			t.Errorf("execution is never %s", e)
		}
	}
	ofDeny := []Reason{ReasonErrorBodyTooLarge, ReasonRetryNotExecuted}
	for _, r := range Reasons() {
		if (fired[r] == 0) != slices.Contains(ofDeny, r) {
			t.Errorf("%s was the reason %d times", r, fired[r])
		}
	}
	s := passing()
	for _, p := range PermanentCategories() {
		s.facts.Permanent = p
		if d := s.decide(); d.Reason != ReasonPermanentFailure || d.Category != p {
			t.Errorf("%s: %+v", p, d)
		}
	}
}

// TestDeny: only a retry becomes a denial, and nothing else of the decision changes.
func TestDeny(t *testing.T) {
	requestGrid().always(t, func(_ *situation, d Decision) bool {
		got, want := d.Deny(ReasonRetryNotExecuted), d
		if d.Verdict == Retry {
			want.Verdict, want.Reason, want.Wait = Denied, ReasonRetryNotExecuted, 0
		}
		return got == want
	})
}
