package decisionapi

import (
	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// answer writes a decision and the class that held.
func (q *question) answer(d decision.Decision) *retryv1.Decision {
	m := &retryv1.Decision{
		Verdict:     retryv1.Verdict(d.Verdict),
		Reason:      retryv1.Reason(d.Reason),
		Category:    retryv1.PermanentCategory(d.Category),
		Rule:        uint32(d.Rule),
		Evidence:    retryv1.Evidence(d.Evidence),
		Execution:   retryv1.Execution(d.Execution),
		Certainty:   certainty(d.Uncertain),
		Idempotency: retryv1.Idempotency(q.facts.Idempotency),
		Operation:   q.operation,
	}
	if d.Verdict == decision.Retry {
		m.Wait = durationpb.New(d.Wait)
	}
	return m
}
