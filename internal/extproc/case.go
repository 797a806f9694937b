package extproc

import (
	"crypto/rand"
	"time"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// failure is one failing answer with what was declared for its upstream: all that a decision needs.
type failure struct {
	evidence.Attempt
	upstream  *config.Upstream
	operation string
	account   budget.Account
	facts     decision.Facts
	policy    decision.Policy
	// caseID names an uncertain outcome: the request's own id, which is the same on every attempt and
	// path, or a fresh one where Envoy did not say it.
	caseID string
	// blind: nothing is known of what rules 1 to 3, 5 and 6 ask about, and they were let pass.
	blind bool
}

func newFailure(a evidence.Attempt, u *config.Upstream) *failure {
	f := &failure{Attempt: a, upstream: u, policy: u.Policy(), caseID: a.ID}
	if f.caseID == "" {
		f.caseID = rand.Text()
	}
	return f
}

// examine puts together what Envoy said, what the operator declared and what the budget shows.
func (c *call) examine(a evidence.Attempt) *failure {
	if !a.Known {
		return c.examineUnknown(a)
	}
	f := c.examinePlain(a)
	f.policy.MaxAttempts = min(f.policy.MaxAttempts, c.limits.retries+1)
	f.remember()
	f.facts.Body = a.Body(c.limits.replay)
	f.facts.MaxWait = c.limits.maxWait
	return f
}

// examinePlain is examine without what only the hop's configuration knows: the request's body can be
// sent again where there is none.
func (c *call) examinePlain(a evidence.Attempt) *failure {
	f := newFailure(a, c.config.Upstream(a.Cluster))
	class := c.class(f)
	f.facts = decision.Facts{
		Evidence:    a.Evidence,
		Status:      a.Status,
		Permanent:   a.Permanent,
		Idempotency: class,
		Body:        a.Body(0),
		EarlyData:   a.EarlyData,
		Attempt:     a.Number,
		Delivery:    decision.NotDelivered, // the answer is still held by Envoy
		Deadline:    a.Deadline,
		Remaining:   a.Remaining,
		RetryAfter:  decision.ParseRetryAfter(a.RetryAfter, a.Date, time.Now()),
		Runtime:     c.server.runtime(a.Cluster),
	}
	f.account = c.server.Budget.Account(a.Cluster)
	if f.account.Empty() {
		f.facts.Budget = decision.BudgetEmpty
	}
	return f
}

// examineUnknown is for an answer without facts, made by router A or a filter or on the way back. Its
// upstream is not known, so the strictest class over all of them holds. The circumstances that rules
// 1 to 6 ask about are not known either; they are let pass, so that the verdict says what is known of
// the request. Nobody retries on it.
func (c *call) examineUnknown(a evidence.Attempt) *failure {
	f := newFailure(a, c.config.Upstream(""))
	f.blind = true
	f.policy.MaxAttempts = max(f.policy.MaxAttempts, 2)
	class := c.config.Strictest(a.Method, a.Path)
	if a.Override {
		class = decision.NonIdempotent
	}
	f.facts = decision.Facts{
		Evidence:    a.Evidence,
		Permanent:   a.Permanent,
		Idempotency: class,
		Body:        decision.Replayable,
		Attempt:     1,
		Delivery:    decision.NotDelivered,
		Deadline:    decision.DeadlineNone,
	}
	return f
}

// class is the operation's class for this request. A request whose method is not what it seems, or
// that was redirected on its way, is non-idempotent. Where the upstream is not known, it may be any.
func (c *call) class(f *failure) decision.Idempotency {
	name, class := f.upstream.Operation(f.Method, f.Path, f.Attempt.Operation)
	f.operation = name
	if f.Method == "" || f.Override || f.Redirected {
		return decision.NonIdempotent
	}
	if f.Cluster == "" {
		class = min(class, c.config.Strictest(f.Method, f.Path))
	}
	if class == decision.IdempotentWithKey && f.Key == "" {
		return decision.NonIdempotent
	}
	return class
}

// remember says what is known of the attempts before this one without remembering them. A
// non-idempotent request is granted a retry only while it is NOT_EXECUTED, so that its attempt n+1
// proves attempts 1 to n. This needs the hop, which alone retries, and all attempts to be of one class:
// method, path and key are the same on each, and `extproc check --envoy` objects to inner routes that
// may choose another upstream for another attempt. A redirected attempt was of the request's own class
// before, and is the second that an upstream got.
func (f *failure) remember() {
	switch {
	case f.Redirected && f.Number > 0:
		f.facts.Attempt = max(f.Number, 2)
	case f.facts.Idempotency == decision.NonIdempotent && !f.Redirected:
		f.facts.Earlier = decision.Earlier{Execution: decision.NotExecuted, Certainty: decision.OutcomeCertain}
	}
}

func (f *failure) decide(r float64) decision.Decision {
	return decision.Decide(f.facts, f.policy, r)
}
