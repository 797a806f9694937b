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
	// ours is there where the upstream has answered 401 to a credential that its source has issued, until
	// the source was told.
	ours *ours
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
	c.remember(f)
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

// class is the operation's class for this request.
func (c *call) class(f *failure) (class decision.Idempotency) {
	f.operation, class = classify(c.config, f.Attempt)
	return class
}

// classify returns the operation's name and its class for this request. A request whose method is not
// what it seems, or that was redirected on its way, is non-idempotent. Where the upstream is not known, it
// may be any.
func classify(declared *config.Config, a evidence.Attempt) (string, decision.Idempotency) {
	name, class := declared.Upstream(a.Cluster).Operation(a.Method, a.Path, a.Operation)
	if a.Method == "" || a.Override || a.Redirected {
		return name, decision.NonIdempotent
	}
	if a.Cluster == "" {
		class = min(class, declared.Strictest(a.Method, a.Path))
	}
	if class == decision.IdempotentWithKey && a.Key == "" {
		class = decision.NonIdempotent
	}
	return name, class
}

// remember says what is known of the attempts before this one without remembering them. A
// non-idempotent request is granted a retry only while it is NOT_EXECUTED, so that its attempt n+1
// proves attempts 1 to n. This needs the hop, which alone retries, and all attempts to be of one class:
// method, path and key are the same on each, `extproc check --envoy` objects to inner routes that
// may choose another upstream for another attempt, and looserBefore looks at what was declared before. A
// redirected attempt was of the request's own class before, and is the second that an upstream got.
func (c *call) remember(f *failure) {
	switch {
	case f.Redirected && f.Number > 0:
		f.facts.Attempt = max(f.Number, 2)
	case f.facts.Idempotency == decision.NonIdempotent && !f.Redirected && !c.looserBefore(f):
		f.facts.Earlier = decision.Earlier{Execution: decision.NotExecuted, Certainty: decision.OutcomeCertain}
	}
}

// looserBefore reports whether an earlier attempt of a non-idempotent request may have been judged by a
// configuration under which a retry proved less: the operation was of a looser class, so that it was
// granted after an attempt that may have been executed, or a status that is distrusted now was taken at
// its word. Nothing else that can be declared changes what a granted retry proves: attempts, deadlines,
// waits and budgets only deny, transient_statuses and replay_on_401 give a non-idempotent request nothing,
// and in shadow mode no retry is granted.
func (c *call) looserBefore(f *failure) bool {
	return f.Number != 1 && c.config.AnyBefore(time.Now(), f.facts, func(before *config.Config) bool {
		_, class := classify(before, f.Attempt)
		return class > decision.NonIdempotent ||
			!before.Upstream(f.Cluster).Policy().Distrusted.Includes(f.policy.Distrusted)
	})
}

func (f *failure) decide(r float64) decision.Decision {
	return decision.Decide(f.facts, f.policy, r)
}
