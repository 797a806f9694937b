package decision

import (
	"slices"
	"testing"
)

// TestExplainAgreesWithDecide: the first rule that objects, or rule 9, is the one that decided.
func TestExplainAgreesWithDecide(t *testing.T) {
	for _, g := range []grid{requestGrid(), circumstanceGrid()} {
		g.each(func(i int, s *situation) {
			if i%10 != 0 || t.Failed() {
				return
			}
			d, ladder := Explain(s.facts, s.policy, s.r)
			if d != g.decisions[i] {
				t.Errorf("Explain decides %+v, Decide %+v", d, g.decisions[i])
			}
			if d.Verdict == Complete {
				if ladder != nil {
					t.Errorf("rules were asked about a success: %v", ladder)
				}
				return
			}
			first := slices.IndexFunc(ladder, func(o RuleOutcome) bool { return o.Verdict != VerdictNone })
			o := ladder[first]
			if o.Number != d.Rule || o.Verdict != d.Verdict || o.Reason != d.Reason {
				t.Errorf("rule %d decided %s, Explain says %+v", d.Rule, written(d), o)
			}
			retries := func(o RuleOutcome) bool { return o.Verdict == Retry }
			if d.Verdict != Retry && slices.ContainsFunc(ladder, retries) {
				t.Errorf("the answer is %s, and yet a rule says retry: %v", written(d), ladder)
			}
		})
	}
}

// TestRuleNames holds the order, which is the specification's.
func TestRuleNames(t *testing.T) {
	want := []string{"attempts_exhausted", "budget_empty", "body_not_replayable", "response_already_delivered",
		"runtime_draining", "deadline_below_minimum", "permanent_failure", "possibly_executed", "status_and_failure"}
	_, ladder := Explain(Facts{}, Policy{}, 0)
	for i, o := range ladder {
		if o.Number != i+1 || o.Name != want[i] {
			t.Errorf("rule %d is %s, want %s", o.Number, o.Name, want[i])
		}
	}
	if len(ladder) != len(want) {
		t.Errorf("%d rules", len(ladder))
	}
}
