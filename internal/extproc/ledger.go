package extproc

import (
	"slices"

	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// entry is what a decision was about.
func entry(f *failure, d decision.Decision) ledger.Entry {
	cause := f.Details
	if f.Transport != "" {
		cause += ", " + f.Transport
	}
	facts, rules := f.asked()
	return ledger.Entry{
		CaseID: f.caseID, RequestID: f.RequestID, Upstream: f.Cluster, Operation: f.operation,
		Method: f.Method, Path: f.Path, Key: f.Key, Attempts: f.Number, Cause: cause, Decision: d,
		Facts: facts, Rules: rules,
	}
}

// asked is what the rules were given, and what they made of it. What was let pass was not known.
func (f *failure) asked() (decision.Facts, []decision.RuleOutcome) {
	facts := f.facts
	_, rules := decision.Explain(facts, f.policy, 0)
	if f.blind {
		facts.Body, facts.Attempt, facts.Deadline = decision.ReplayabilityUnknown, 0, decision.DeadlineUnknown
		rules = slices.DeleteFunc(rules, func(r decision.RuleOutcome) bool { return r.Number <= 6 && r.Number != 4 })
	}
	return facts, rules
}

// enter writes an uncertain outcome down for whoever reconciles it.
func (s *Server) enter(e ledger.Entry) {
	if s.Ledger != nil {
		s.Ledger.Enter(e)
	}
}

// remember keeps a decision for whoever asks why.
func (s *Server) remember(e ledger.Entry) {
	if s.Recent != nil {
		s.Recent.Add(e)
	}
}
