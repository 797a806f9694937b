package decision

import "time"

// Decision is the answer to one ended attempt.
type Decision struct {
	Verdict Verdict
	// Reason is ReasonNone exactly when the verdict is Retry or Complete.
	Reason Reason
	// Category is set with ReasonPermanentFailure.
	Category Permanent
	// Rule is the rule that decided, 1 to 9; 0 when there was nothing to decide (Complete).
	Rule int
	// Evidence is this attempt's, never EvidenceUnknown.
	Evidence Evidence
	// Execution is the request's: the maximum over its attempts.
	Execution Execution
	// Uncertain says that, if the request ends here, its caller must be told that it may or may not
	// have been executed.
	Uncertain bool
	// Wait is how long to wait before the next attempt; it is set with Retry only.
	Wait time.Duration
}

// Verdict is the answer's word.
type Verdict uint8

const (
	// VerdictNone is the zero value and no answer.
	VerdictNone Verdict = iota
	// Complete: the request succeeded; there is nothing to decide.
	Complete
	// Retry: the request may be sent again after Decision.Wait.
	Retry
	// Denied: the request must not be sent again.
	Denied
	// Ambiguous: the request may have been executed, and sending it again may execute it twice.
	Ambiguous
)

// Decide applies the nine rules in order. r in [0,1) places the wait inside its jitter; anything
// else, NaN included, is read as the nearest bound. It does not allocate.
func Decide(f Facts, p Policy, r float64) Decision {
	a := assess(f, p)
	if a.complete {
		return a.decision(f, outcome{verdict: Complete})
	}
	for i := range rules {
		if o := rules[i].apply(f, p, a); o.verdict != VerdictNone {
			d := a.decision(f, o)
			d.Rule = i + 1
			if d.Verdict == Retry {
				d.Wait = o.wait.at(r)
			}
			return d
		}
	}
	panic("decision: the last rule always answers") // laws_test.go covers every combination of facts
}

// Deny turns a retry that cannot be carried out into a denial: the token was not to be had, the
// process began to drain, the error body did not fit, the proxy did not do it. What is known of the
// request, and the rule that had decided, stay as they are. Any other verdict is returned unchanged:
// an ambiguous answer does not become a plain denial.
func (d Decision) Deny(r Reason) Decision {
	if d.Verdict == Retry {
		d.Verdict, d.Reason, d.Wait = Denied, r, 0
	}
	return d
}

func (a assessment) decision(f Facts, o outcome) Decision {
	d := Decision{
		Verdict:   o.verdict,
		Reason:    o.reason,
		Evidence:  a.evidence,
		Execution: a.execution,
		Uncertain: a.uncertain,
	}
	if o.reason == ReasonPermanentFailure {
		d.Category = f.Permanent
	}
	return d
}
