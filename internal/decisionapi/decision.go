package decisionapi

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// Declarations are what the operator declared. They do not change.
type Declarations interface {
	// Policy holds for an upstream, "" for one that is not known.
	Policy(upstream string) decision.Policy
	// Operation returns the declared operation's name, "" where none counts, and the class before the key
	// was looked at. Where method is "" and the route's operation is not declared, the class counts for
	// nothing.
	Operation(upstream, method, path, routeOperation string) (name string, class decision.Idempotency)
	// Strictest returns the strictest class that is declared for an upstream, Safe where none is.
	Strictest(upstream string) decision.Idempotency
	// AnyBefore reports whether looser holds for any declarations that may have been in force when an
	// earlier attempt of a request was judged, of which f gives the deadline.
	AnyBefore(now time.Time, f decision.Facts, looser func(Declarations) bool) bool
}

// Decisions serves retry.v1.DecisionService.
type Decisions struct {
	retryv1.UnimplementedDecisionServiceServer

	// Declared returns what is in force; a call reads it once.
	Declared func() Declarations
	Budget   budget.Budget
	Grants   *Grants
	// Runtime says whether a retry towards an upstream may begin; nil is always.
	Runtime func(upstream string) decision.RuntimeState
	// Observe, if not nil, is told of every decision that was no dry run, with its call's context. It must
	// not block.
	Observe func(context.Context, Decided)
	// Random returns numbers in [0,1) that place waits inside their jitter; nil is math/rand.
	Random func() float64
	// Now is the time against which a Retry-After date is measured; nil is time.Now.
	Now func() time.Time
}

// Decided is a decision with what is known of its request.
type Decided struct {
	Decision  decision.Decision
	CaseID    string // with an uncertain outcome that ends the request
	RequestID string
	Upstream  string
	Operation string
	Method    string
	Path      string
	Key       string // the one valid idempotency key, or empty
	Attempt   int
	Cause     string // what was seen to happen, for people
	Facts     decision.Facts
	Rules     []decision.RuleOutcome // what each made of the facts
}

// Decide is documented at retryv1.DecisionServiceServer.
func (s *Decisions) Decide(ctx context.Context, req *retryv1.DecideRequest) (*retryv1.DecideResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	q := s.question(req.GetFacts())
	d := decision.Decide(q.facts, q.policy, s.random())
	if req.GetDryRun() {
		return &q.answer(d).response, nil
	}
	var name, caseID string
	if d.Verdict == decision.Retry {
		if grant, ok := q.account.TryWithdraw(ctx); ok {
			name = s.Grants.keep(q.account, grant)
		} else {
			d = d.Deny(decision.ReasonBudgetExhausted)
		}
	}
	if d.Uncertain && d.Verdict != decision.Retry {
		caseID = rand.Text()
	}
	resp := &q.answer(d).response
	resp.Grant, resp.CaseId = name, caseID
	if s.Observe != nil {
		s.Observe(ctx, q.decided(d, req, caseID))
	}
	return resp, nil
}

// Explain is documented at retryv1.DecisionServiceServer.
func (s *Decisions) Explain(_ context.Context, req *retryv1.ExplainRequest) (*retryv1.ExplainResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	q := s.question(req.GetFacts())
	d, rules := decision.Explain(q.facts, q.policy, s.random())
	return &retryv1.ExplainResponse{Decision: &q.answer(d).decision, Rules: ledger.Ladder(rules)}, nil
}

// Classify is documented at retryv1.DecisionServiceServer.
func (s *Decisions) Classify(_ context.Context, req *retryv1.ClassifyRequest) (*retryv1.ClassifyResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	e := endingOf(req.GetEnding(), s.now)
	if e.evidence == decision.EvidenceUnknown {
		e.evidence = decision.SentNoResponse
	}
	return &retryv1.ClassifyResponse{
		Evidence:  retryv1.Evidence(e.evidence),
		Permanent: retryv1.PermanentCategory(e.permanent),
		Why:       e.why,
	}, nil
}

// question is a valid message with what was declared and what the budget shows.
type question struct {
	operation string
	account   budget.Account
	facts     decision.Facts
	policy    decision.Policy
}

func (s *Decisions) question(m *retryv1.Facts) question {
	declared := s.Declared()
	q := question{
		account: s.Budget.Account(m.GetUpstream()),
		facts:   facts(m, s.now),
		policy:  declared.Policy(m.GetUpstream()),
	}
	q.operation, q.facts.Idempotency = class(declared, m.GetUpstream(), m.GetCall())
	if m.GetAttempt() != 1 && looserBefore(declared, m, q, s.now()) {
		q.facts.Earlier = decision.Earlier{}
	}
	if q.account.Empty() {
		q.facts.Budget = decision.BudgetEmpty
	}
	if s.Runtime != nil && q.facts.Runtime == decision.RuntimeServing {
		q.facts.Runtime = s.Runtime(m.GetUpstream())
	}
	return q
}

// looserBefore reports whether what the caller says of the attempts before a second or later one may have been said by declarations
// under which it meant less: a looser class left no outcome open, and a status that is distrusted now was
// taken at its word.
func looserBefore(declared Declarations, m *retryv1.Facts, q question, now time.Time) bool {
	return declared.AnyBefore(now, q.facts, func(before Declarations) bool {
		_, class := class(before, m.GetUpstream(), m.GetCall())
		return class > q.facts.Idempotency || !before.Policy(m.GetUpstream()).Distrusted.Includes(q.policy.Distrusted)
	})
}

// class is the operation's for this request: the caller may tighten what was declared, never loosen it.
func class(declared Declarations, upstream string, c *retryv1.Call) (string, decision.Idempotency) {
	name, class := declared.Operation(upstream, c.GetMethod(), c.GetPath(), c.GetRouteOperation())
	said := decision.Idempotency(c.GetIdempotency())
	switch {
	case c.GetMethod() == "" && name == "":
		class = min(max(said, decision.NonIdempotent), declared.Strictest(upstream))
	case said != decision.IdempotencyUnknown:
		class = min(class, said)
	}
	return name, class.WithKey(c.GetIdempotencyKeys()...)
}

func (q *question) decided(d decision.Decision, req *retryv1.DecideRequest, caseID string) Decided {
	call := req.GetFacts().GetCall()
	o := Decided{
		Decision: d, CaseID: caseID, RequestID: req.GetRequestId(),
		Upstream: req.GetFacts().GetUpstream(), Operation: q.operation,
		Method: call.GetMethod(), Path: call.GetPath(), Attempt: q.facts.Attempt,
		Cause: cause(req.GetFacts().GetEnding()), Facts: q.facts,
	}
	_, o.Rules = decision.Explain(q.facts, q.policy, 0)
	if keys := call.GetIdempotencyKeys(); decision.ValidKey(keys...) {
		o.Key = keys[0]
	}
	return o
}

func (s *Decisions) random() float64 {
	if s.Random != nil {
		return s.Random()
	}
	return mathrand.Float64()
}

func (s *Decisions) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}
