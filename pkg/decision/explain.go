package decision

// RuleOutcome is what one rule says of the facts, taken by itself.
type RuleOutcome struct {
	// Number is the rule's place in the order, from 1.
	Number int
	// Name is the rule's name in the specification's words.
	Name string
	// Verdict is VerdictNone where the rule has no objection. It is Retry only where that is the answer.
	Verdict Verdict
	Reason  Reason
}

// Explain answers as Decide does, and says what each of the nine rules, in order, makes of the facts.
// Rules behind the one that decided are evaluated too: they show what else stands in the way. Where
// the verdict is Complete no rule was asked.
func Explain(f Facts, p Policy, r float64) (Decision, []RuleOutcome) {
	d := Decide(f, p, r)
	if d.Verdict == Complete {
		return d, nil
	}
	a := assess(f, p)
	outcomes := make([]RuleOutcome, len(rules))
	for i, rule := range rules {
		o := rule.apply(f, p, a)
		if o.verdict == Retry && d.Verdict != Retry {
			o = outcome{} // what an earlier rule forbade, rule 9 does not re-enable
		}
		outcomes[i] = RuleOutcome{Number: i + 1, Name: rule.name, Verdict: o.verdict, Reason: o.reason}
	}
	return d, outcomes
}
