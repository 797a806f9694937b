package decision

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// matrixTable is the specification's matrix of rules 8 and 9, written down independently of matrix.go.
// Rows are tried top to bottom. "answered" is RESPONSE_RECEIVED, or PARTIAL_RESPONSE with a 4xx head,
// which is judged as that status. "." in a cell: the row does not cover this class. The two last
// columns are this attempt's.
//
// Two rows of the specification are rules 7 and 4 (permanent category; delivered) and have no cells
// here: rules 1 to 7 change the verdict's word, never execution nor uncertain.
const matrixTable = `
evidence          | status or failure        | S                            | I                            | K                            | N                            | execution    | uncertain
RESPONSE_RECEIVED | 2xx, 3xx, 101            | complete                     | complete                     | complete                     | complete                     | EXECUTED     | no
any               | earlier attempt unproven | .                            | .                            | .                            | ambiguous(earlier_attempt)   | UNKNOWN      | yes
NOT_SENT          | any                      | retry                        | retry                        | retry                        | retry                        | NOT_EXECUTED | no
UNKNOWN           | any                      | retry                        | retry                        | retry                        | ambiguous(no_evidence)       | UNKNOWN      | yes
SENT_NO_RESPONSE  | any                      | retry                        | retry                        | retry                        | ambiguous(sent_no_response)  | UNKNOWN      | yes
PARTIAL_RESPONSE  | 503 beyond cap           | denied(retry_after_too_long) | denied(retry_after_too_long) | denied(retry_after_too_long) | ambiguous(partial_response)  | UNKNOWN      | yes
PARTIAL_RESPONSE  | 503 beyond deadline      | denied(deadline)             | denied(deadline)             | denied(deadline)             | ambiguous(partial_response)  | UNKNOWN      | yes
PARTIAL_RESPONSE  | head other than 4xx      | retry                        | retry                        | retry                        | ambiguous(partial_response)  | UNKNOWN      | yes
answered          | distrusted beyond cap    | denied(retry_after_too_long) | denied(retry_after_too_long) | denied(retry_after_too_long) | ambiguous(gateway_status)    | UNKNOWN      | yes
answered          | distrusted beyond deadline | denied(deadline)           | denied(deadline)             | denied(deadline)             | ambiguous(gateway_status)    | UNKNOWN      | yes
answered          | distrusted 408, 425, 429 | retry                        | retry                        | retry                        | ambiguous(gateway_status)    | UNKNOWN      | yes
answered          | 401 not ours             | denied(credential_not_ours)  | denied(credential_not_ours)  | denied(credential_not_ours)  | denied(credential_not_ours)  | NOT_EXECUTED | no
answered          | 401 refreshed            | denied(credential_rejected)  | denied(credential_rejected)  | denied(credential_rejected)  | denied(credential_rejected)  | NOT_EXECUTED | no
answered          | 401 opted in             | retry                        | retry                        | retry                        | denied(status_not_retryable) | NOT_EXECUTED | no
answered          | 401                      | retry                        | denied(status_not_retryable) | denied(status_not_retryable) | denied(status_not_retryable) | NOT_EXECUTED | no
answered          | 408                      | retry                        | retry                        | retry                        | retry                        | NOT_EXECUTED | no
answered          | 425 first, not early     | retry                        | retry                        | retry                        | retry                        | NOT_EXECUTED | no
answered          | 425                      | denied(too_early)            | denied(too_early)            | denied(too_early)            | denied(too_early)            | NOT_EXECUTED | no
answered          | 429 beyond cap           | denied(retry_after_too_long) | denied(retry_after_too_long) | denied(retry_after_too_long) | denied(retry_after_too_long) | NOT_EXECUTED | no
answered          | 429 beyond deadline      | denied(deadline)             | denied(deadline)             | denied(deadline)             | denied(deadline)             | NOT_EXECUTED | no
answered          | 429                      | retry                        | retry                        | retry                        | retry                        | NOT_EXECUTED | no
answered          | 421                      | denied(status_not_retryable) | denied(status_not_retryable) | denied(status_not_retryable) | denied(status_not_retryable) | NOT_EXECUTED | no
answered          | other 4xx                | denied(status_not_retryable) | denied(status_not_retryable) | denied(status_not_retryable) | denied(status_not_retryable) | EXECUTED     | no
RESPONSE_RECEIVED | 503 beyond cap           | denied(retry_after_too_long) | denied(retry_after_too_long) | denied(retry_after_too_long) | ambiguous(gateway_status)    | UNKNOWN      | yes
RESPONSE_RECEIVED | 503 beyond deadline      | denied(deadline)             | denied(deadline)             | denied(deadline)             | ambiguous(gateway_status)    | UNKNOWN      | yes
RESPONSE_RECEIVED | 502, 503, 504            | retry                        | retry                        | retry                        | ambiguous(gateway_status)    | UNKNOWN      | yes
RESPONSE_RECEIVED | transient 5xx            | retry                        | retry                        | retry                        | denied(status_not_retryable) | UNKNOWN      | no
RESPONSE_RECEIVED | other 5xx                | denied(status_not_retryable) | denied(status_not_retryable) | denied(status_not_retryable) | denied(status_not_retryable) | UNKNOWN      | no
RESPONSE_RECEIVED | none, 1xx, < 100, > 599  | denied(status_not_retryable) | denied(status_not_retryable) | denied(status_not_retryable) | ambiguous(invalid_status)    | UNKNOWN      | yes
`

// conditions say when the second column of matrixTable holds.
var conditions = map[string]func(f Facts, p Policy) bool{
	"any":                        func(Facts, Policy) bool { return true },
	"2xx, 3xx, 101":              func(f Facts, _ Policy) bool { return f.Status/100 == 2 || f.Status/100 == 3 || f.Status == 101 },
	"earlier attempt unproven":   func(f Facts, _ Policy) bool { return f.Attempt != 1 && f.Earlier.Execution != NotExecuted },
	"503 beyond cap":             func(f Facts, p Policy) bool { return f.Status == 503 && beyondCap(f, p) },
	"503 beyond deadline":        func(f Facts, p Policy) bool { return f.Status == 503 && beyondDeadline(f, p) },
	"head other than 4xx":        func(f Facts, _ Policy) bool { return f.Status/100 != 4 },
	"distrusted beyond cap":      func(f Facts, p Policy) bool { return f.Status == 429 && distrusted(f, p) && beyondCap(f, p) },
	"distrusted beyond deadline": func(f Facts, p Policy) bool { return f.Status == 429 && distrusted(f, p) && beyondDeadline(f, p) },
	"distrusted 408, 425, 429":   distrusted,
	"401 not ours":               func(f Facts, _ Policy) bool { return f.Status == 401 && f.Credential == CredentialNotOurs },
	"401 refreshed":              func(f Facts, _ Policy) bool { return f.Status == 401 && f.Credential == CredentialRefreshed },
	"401 opted in":               func(f Facts, p Policy) bool { return f.Status == 401 && p.ReplayOn401 == ReplayIdempotent },
	"401":                        func(f Facts, _ Policy) bool { return f.Status == 401 },
	"408":                        func(f Facts, _ Policy) bool { return f.Status == 408 },
	"425 first, not early": func(f Facts, _ Policy) bool {
		return f.Status == 425 && f.Attempt == 1 && f.EarlyData == EarlyDataNotSent
	},
	"425":                     func(f Facts, _ Policy) bool { return f.Status == 425 },
	"429 beyond cap":          func(f Facts, p Policy) bool { return f.Status == 429 && beyondCap(f, p) },
	"429 beyond deadline":     func(f Facts, p Policy) bool { return f.Status == 429 && beyondDeadline(f, p) },
	"429":                     func(f Facts, _ Policy) bool { return f.Status == 429 },
	"421":                     func(f Facts, _ Policy) bool { return f.Status == 421 },
	"other 4xx":               func(f Facts, _ Policy) bool { return f.Status/100 == 4 },
	"502, 503, 504":           func(f Facts, _ Policy) bool { return f.Status >= 502 && f.Status <= 504 },
	"transient 5xx":           func(f Facts, p Policy) bool { return f.Status/100 == 5 && p.Transient.Has(f.Status) },
	"other 5xx":               func(f Facts, _ Policy) bool { return f.Status/100 == 5 },
	"none, 1xx, < 100, > 599": func(f Facts, _ Policy) bool { return f.Status < 200 || f.Status > 599 },
}

func distrusted(f Facts, p Policy) bool {
	return (f.Status == 408 || f.Status == 425 || f.Status == 429) && p.Distrusted.Has(f.Status)
}

func beyondCap(f Facts, p Policy) bool { return f.RetryAfter > p.RetryAfterCap }

func beyondDeadline(f Facts, p Policy) bool {
	return f.Deadline == DeadlineKnown && f.RetryAfter > f.Remaining-p.MinAttemptBudget
}

// matrixLine is a parsed line of matrixTable.
type matrixLine struct {
	text      string
	evidence  func(Facts) bool
	condition func(Facts, Policy) bool
	cells     map[Idempotency]string
	execution Execution
	uncertain bool
}

func parseMatrix(t *testing.T) []matrixLine {
	t.Helper()
	var lines []matrixLine
	for _, text := range strings.Split(strings.TrimSpace(matrixTable), "\n")[1:] {
		c := strings.Split(text, "|")
		for i := range c {
			c[i] = strings.TrimSpace(c[i])
		}
		l := matrixLine{
			text:      c[0] + ", " + c[1],
			condition: conditions[c[1]],
			cells:     map[Idempotency]string{Safe: c[2], Idempotent: c[3], IdempotentWithKey: c[4], NonIdempotent: c[5]},
			uncertain: c[7] == "yes",
		}
		if l.condition == nil {
			t.Fatalf("no condition %q", c[1])
		}
		var ok bool
		if l.execution, ok = ParseExecution(c[6]); !ok {
			t.Fatalf("execution of %s", l.text)
		}
		switch evidence, known := ParseEvidence(c[0]); {
		case known:
			l.evidence = func(f Facts) bool { return f.Evidence == evidence }
		case c[0] == "answered":
			l.evidence = func(f Facts) bool {
				return f.Evidence == ResponseReceived || f.Evidence == PartialResponse && f.Status/100 == 4
			}
		case c[0] == "any":
			l.evidence = func(Facts) bool { return true }
		default:
			t.Fatalf("evidence of %s", l.text)
		}
		lines = append(lines, l)
	}
	return lines
}

// specified returns what the specification says: rules 1 to 7 in order, then the matrix.
func specified(lines []matrixLine, f Facts, p Policy) (line int, answer string, d Decision) {
	class := f.Idempotency
	if class == IdempotencyUnknown {
		class = NonIdempotent
	}
	cell := ""
	for line = range lines {
		if l := lines[line]; l.evidence(f) && l.condition(f, p) && l.cells[class] != "." {
			cell, d.Execution, d.Uncertain = l.cells[class], l.execution, l.uncertain
			break
		}
	}
	d.Evidence = f.Evidence
	if f.Evidence == EvidenceUnknown {
		d.Evidence = SentNoResponse
	}
	if cell == "complete" {
		return line, cell, d
	}
	if f.Evidence == PartialResponse {
		d.Uncertain = true
	}
	if f.Attempt != 1 {
		d.Execution = greater(d.Execution, f.Earlier.Execution)
		d.Uncertain = d.Uncertain || f.Earlier.Certainty != OutcomeCertain
	}
	d.Uncertain = d.Uncertain && class != Safe

	answered := f.Evidence == ResponseReceived || f.Evidence == PartialResponse
	switch {
	case f.Attempt < 1 || f.Attempt >= p.MaxAttempts:
		d.Rule, answer = 1, "denied(max_attempts)"
	case f.Budget == BudgetEmpty:
		d.Rule, answer = 2, "denied(budget_exhausted)"
	case f.Body != Replayable && f.Body != Reopenable:
		d.Rule, answer = 3, "denied(body_not_replayable)"
	case f.Delivery == Delivered || f.Delivery == DeliveryUnknown && answered:
		d.Rule, answer = 4, "denied(response_already_delivered)"
	case f.Runtime == RuntimeDraining:
		d.Rule, answer = 5, "denied(runtime_draining)"
	case f.Deadline == DeadlineUnknown || f.Deadline == DeadlineKnown && f.Remaining < p.MinAttemptBudget:
		d.Rule, answer = 6, "denied(deadline)"
	case f.Permanent != PermanentNone:
		d.Rule, answer, d.Category = 7, "denied(permanent_failure)", f.Permanent
	case strings.HasSuffix(cell, "(earlier_attempt)"), strings.HasSuffix(cell, "(sent_no_response)"),
		strings.HasSuffix(cell, "(no_evidence)"):
		d.Rule, answer = 8, cell
	default:
		d.Rule, answer = 9, cell
	}
	return line, answer, d
}

func greater(a, b Execution) Execution {
	order := map[Execution]int{NotExecuted: 0, Executed: 1, ExecutionUnknown: 2}
	if order[a] > order[b] {
		return a
	}
	return b
}

// TestMatrix compares every point of both grids with the table, cell by cell, and demands that every
// cell of the table is met.
func TestMatrix(t *testing.T) {
	lines := parseMatrix(t)
	met := map[int]map[Idempotency]bool{}
	for _, g := range []grid{requestGrid(), circumstanceGrid()} {
		t.Log(g)
		g.always(t, func(s *situation, d Decision) bool {
			line, answer, want := specified(lines, s.facts, s.policy)
			if met[line] == nil {
				met[line] = map[Idempotency]bool{}
			}
			met[line][s.facts.Idempotency] = true
			if written(d) != answer {
				t.Errorf("the answer is %s, the specification says %s (%s)", written(d), answer, lines[line].text)
				return false
			}
			want.Verdict, want.Reason, want.Wait = d.Verdict, d.Reason, d.Wait
			if d != want {
				t.Errorf("got the first, want the second (%s)\n%+v\n%+v", lines[line].text, d, want)
			}
			return d == want
		})
	}
	for i, l := range lines {
		for class, cell := range l.cells {
			if cell != "." && !met[i][class] {
				t.Errorf("no point meets %s, %s", l.text, class)
			}
		}
	}
}

// TestMatrixAcrossTheGrids compares points drawn from the product of both grids' axes, which is too
// large to be enumerated.
func TestMatrixAcrossTheGrids(t *testing.T) {
	lines := parseMatrix(t)
	axes := slices.Clone(requestGrid().axes)
	for _, a := range circumstanceGrid().axes {
		switch a.name {
		case "class", "end", "earlier", "attempt": // requestGrid has these
		default:
			axes = append(axes, a)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500_000 {
		s := passing()
		for _, a := range axes {
			a.set(&s, random.IntN(len(a.values)))
		}
		line, answer, want := specified(lines, s.facts, s.policy)
		d := s.decide()
		want.Verdict, want.Reason, want.Wait = d.Verdict, d.Reason, d.Wait
		if written(d) != answer || d != want {
			t.Fatalf("got the first, want %s and the second (%s)\n%+v\n%+v\nat %+v", answer, lines[line].text, d, want, s)
		}
	}
}

// written is a decision's answer as the table writes it.
func written(d Decision) string {
	if d.Reason == ReasonNone {
		return d.Verdict.String()
	}
	return d.Verdict.String() + "(" + d.Reason.String() + ")"
}

// passing is a situation in which no rule objects: a response that is to be retried.
func passing() situation {
	return situation{
		facts: Facts{
			Evidence: NotSent, Idempotency: Safe, Body: Replayable, Attempt: 1, Delivery: NotDelivered,
			Deadline: DeadlineKnown, Remaining: 5 * time.Second, Budget: BudgetAvailable,
		},
		policy: DefaultPolicy(),
	}
}

func statuses(codes ...int) (set StatusSet) {
	for _, code := range codes {
		set.Add(code)
	}
	return set
}
