package decisionapi

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// answer is all of an answer's messages, which come and go together.
type answer struct {
	response retryv1.DecideResponse
	decision retryv1.Decision
	wait     durationpb.Duration
}

// answer writes a decision and the class that held.
func (q *question) answer(d decision.Decision) *answer {
	a := new(answer)
	a.response.Decision = &a.decision
	m := &a.decision
	m.Verdict = retryv1.Verdict(d.Verdict)
	m.Reason = retryv1.Reason(d.Reason)
	m.Category = retryv1.PermanentCategory(d.Category)
	m.Rule = uint32(d.Rule)
	m.Evidence = retryv1.Evidence(d.Evidence)
	m.Execution = retryv1.Execution(d.Execution)
	m.Certainty = certainty(d.Uncertain)
	m.Idempotency = retryv1.Idempotency(q.facts.Idempotency)
	m.Operation = q.operation
	if d.Verdict == decision.Retry {
		m.Wait = &a.wait
		m.Wait.Seconds, m.Wait.Nanos = int64(d.Wait/time.Second), int32(d.Wait%time.Second)
	}
	return a
}
