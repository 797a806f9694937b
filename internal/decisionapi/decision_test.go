package decisionapi

import (
	"context"
	"reflect"
	"testing"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// refused is an attempt at a safe operation that may be sent again.
func refused() *retryv1.Facts {
	return &retryv1.Facts{
		Upstream: "app",
		Call:     &retryv1.Call{Method: "GET", Path: "/"},
		Body:     &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_NONE},
		Attempt:  1,
		Ending:   stage(retryv1.Stage_STAGE_CONNECT),
		Deadline: &retryv1.Facts_NoDeadline{},
	}
}

func stage(s retryv1.Stage) *retryv1.Ending {
	return &retryv1.Ending{Ending: &retryv1.Ending_Observation{
		Observation: &retryv1.Observation{Reach: &retryv1.Observation_Stage{Stage: s}},
	}}
}

func (l *lab) decide(t *testing.T, f *retryv1.Facts) *retryv1.DecideResponse {
	t.Helper()
	resp, err := l.Decisions.Decide(t.Context(), &retryv1.DecideRequest{Facts: f})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Decide pays for what it grants; nothing else does.
func TestDecideTakesOneToken(t *testing.T) {
	l := newLab(t)
	f := refused()
	f.Upstream = "one"
	for range 3 {
		if _, err := l.Explain(t.Context(), &retryv1.ExplainRequest{Facts: f}); err != nil {
			t.Fatal(err)
		}
		dry, err := l.Decide(t.Context(), &retryv1.DecideRequest{Facts: f, DryRun: true})
		if err != nil || dry.GetDecision().GetVerdict() != retryv1.Verdict_VERDICT_RETRY || dry.GetGrant() != "" {
			t.Fatalf("dry run: %v, %v", dry, err)
		}
	}
	first := l.decide(t, f)
	if first.GetDecision().GetVerdict() != retryv1.Verdict_VERDICT_RETRY || first.GetGrant() == "" {
		t.Fatalf("with a token: %v", first)
	}
	second := l.decide(t, f)
	if d := second.GetDecision(); d.GetReason() != retryv1.Reason_REASON_BUDGET_EXHAUSTED || d.GetWait() != nil || second.GetGrant() != "" {
		t.Fatalf("without: %v", second)
	}
	// Given back twice, it is there once.
	for range 2 {
		if _, err := l.budget.Return(within(t), &retryv1.ReturnRequest{Grant: first.GetGrant()}); err != nil {
			t.Fatal(err)
		}
	}
	state := l.Budget.Account("one").State()
	if state.ReserveLeft != 1 || state.Retries != 0 || state.Firsts != 0 {
		t.Errorf("%+v", state)
	}
}

// A caller may tighten a class and never loosen it.
func TestClass(t *testing.T) {
	const (
		unknown = retryv1.Idempotency_IDEMPOTENCY_UNSPECIFIED
		non     = retryv1.Idempotency_IDEMPOTENCY_NON_IDEMPOTENT
		keyed   = retryv1.Idempotency_IDEMPOTENCY_IDEMPOTENT_WITH_KEY
		idem    = retryv1.Idempotency_IDEMPOTENCY_IDEMPOTENT
		safe    = retryv1.Idempotency_IDEMPOTENCY_SAFE
	)
	key := []string{"k"}
	for _, c := range []struct {
		name      string
		call      *retryv1.Call
		strictest decision.Idempotency
		want      retryv1.Idempotency
	}{
		{"nothing said", nil, decision.Safe, non},
		{"the method's own", &retryv1.Call{Method: "GET"}, decision.NonIdempotent, safe},
		{"tightened", &retryv1.Call{Method: "GET", Idempotency: non}, decision.Safe, non},
		{"an undeclared POST is not loosened", &retryv1.Call{Method: "POST", Idempotency: safe}, decision.Safe, non},
		{"a declared one is what was declared", &retryv1.Call{Method: "SEARCH"}, decision.Safe, safe},
		{"a declared one is not loosened", &retryv1.Call{Method: "PUT", Idempotency: idem}, decision.Safe, non},
		{"by its route's name", &retryv1.Call{RouteOperation: "pay", IdempotencyKeys: key}, decision.Safe, keyed},
		{"by its route's name, not loosened", &retryv1.Call{RouteOperation: "pay", Idempotency: safe, IdempotencyKeys: key}, decision.Safe, keyed},
		{"a key is missing", &retryv1.Call{RouteOperation: "pay"}, decision.Safe, non},
		{"two keys", &retryv1.Call{RouteOperation: "pay", IdempotencyKeys: []string{"a", "b"}}, decision.Safe, non},
		{"tightened to a key that is missing", &retryv1.Call{Method: "GET", Idempotency: keyed}, decision.Safe, non},
		{"the caller's word, with no method", &retryv1.Call{Idempotency: idem}, decision.Safe, idem},
		{"bounded by what was declared", &retryv1.Call{Idempotency: safe}, decision.NonIdempotent, non},
		{"a route that nobody declared", &retryv1.Call{RouteOperation: "other"}, decision.Safe, non},
	} {
		l := newLab(t)
		l.operations = map[string]decision.Idempotency{
			"SEARCH": decision.Safe, "PUT": decision.NonIdempotent, "pay": decision.IdempotentWithKey,
		}
		l.strictest = c.strictest
		f := refused()
		f.Call = c.call
		if got := l.decide(t, f).GetDecision().GetIdempotency(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What is missing is read the safe way: of a request that may be sent again, no field can be left out
// and the answer stay a retry, but those whose absence is stated to be harmless.
func TestMissingFactsNeverPermit(t *testing.T) {
	harmless := map[string]bool{"upstream": true}
	l := newLab(t)
	l.policy.MaxAttempts = 5
	complete := refused()
	complete.Ending = &retryv1.Ending{Ending: &retryv1.Ending_Http{Http: &retryv1.HttpResponse{Status: 503}}}
	complete.Delivery = retryv1.Delivery_DELIVERY_NOT_DELIVERED
	if v := l.decide(t, complete).GetDecision().GetVerdict(); v != retryv1.Verdict_VERDICT_RETRY {
		t.Fatalf("complete: %v", v)
	}
	fields := complete.ProtoReflect().Descriptor().Fields()
	cleared := 0
	for i := range fields.Len() {
		m := refused()
		m.Ending, m.Delivery = complete.Ending, complete.Delivery
		if !m.ProtoReflect().Has(fields.Get(i)) {
			continue
		}
		cleared++
		name := string(fields.Get(i).Name())
		m.ProtoReflect().Clear(fields.Get(i))
		v := l.decide(t, m).GetDecision().GetVerdict()
		// The end of the attempt is different: for a GET a reset and a 503 are both retried.
		if name == "ending" {
			m.Call.Method = "POST"
			v = l.decide(t, m).GetDecision().GetVerdict()
		}
		if v == retryv1.Verdict_VERDICT_RETRY && !harmless[name] {
			t.Errorf("without %s: %v", name, v)
		}
	}
	if cleared < 6 {
		t.Errorf("only %d fields were tried", cleared)
	}
	if v := l.decide(t, &retryv1.Facts{}).GetDecision(); v.GetVerdict() != retryv1.Verdict_VERDICT_DENIED || v.GetCertainty() != retryv1.Certainty_CERTAINTY_UNCERTAIN {
		t.Errorf("nothing known: %v", v)
	}
}

func TestDraining(t *testing.T) {
	l := newLab(t)
	l.Runtime = func(upstream string) decision.RuntimeState {
		if upstream == "drained" {
			return decision.RuntimeDraining
		}
		return decision.RuntimeServing
	}
	own := refused()
	own.Runtime = retryv1.Runtime_RUNTIME_DRAINING
	theirs := refused()
	theirs.Upstream = "drained"
	for _, f := range []*retryv1.Facts{own, theirs} {
		if d := l.decide(t, f).GetDecision(); d.GetReason() != retryv1.Reason_REASON_RUNTIME_DRAINING || d.GetRule() != 5 {
			t.Errorf("%s: %v", f.GetUpstream(), d)
		}
	}
	if d := l.decide(t, refused()).GetDecision(); d.GetVerdict() != retryv1.Verdict_VERDICT_RETRY {
		t.Errorf("another upstream: %v", d)
	}
}

func TestObserve(t *testing.T) {
	l := newLab(t)
	var seen []Decided
	l.Observe = func(_ context.Context, d Decided) { seen = append(seen, d) }
	f := refused()
	f.Call = &retryv1.Call{Method: "POST", Path: "/pay", IdempotencyKeys: []string{"k"}}
	f.Ending = stage(retryv1.Stage_STAGE_CONNECTION_RESET)
	req := &retryv1.DecideRequest{Facts: f, RequestId: "r-1", DryRun: true}
	if _, err := l.Decide(t.Context(), req); err != nil || len(seen) != 0 {
		t.Fatalf("a dry run was observed, or %v", err)
	}
	req.DryRun = false
	resp, err := l.Decide(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	want := Decided{
		Decision: domain(resp.GetDecision()), CaseID: resp.GetCaseId(), RequestID: "r-1", Upstream: "app",
		Method: "POST", Path: "/pay", Key: "k", Attempt: 1, Cause: "STAGE_CONNECTION_RESET",
	}
	if len(seen) != 1 || len(seen[0].Rules) != 9 || seen[0].Facts.Evidence != decision.SentNoResponse {
		t.Fatalf("%+v", seen)
	}
	want.Facts, want.Rules = seen[0].Facts, seen[0].Rules
	if !reflect.DeepEqual(seen[0], want) || want.CaseID == "" || want.Decision.Verdict != decision.Ambiguous {
		t.Errorf("%+v, want %+v", seen, want)
	}
}

func TestClassify(t *testing.T) {
	l := newLab(t)
	zero, one := uint64(0), uint64(1)
	envoy := func(r *retryv1.EnvoyReply) *retryv1.Ending {
		return &retryv1.Ending{Ending: &retryv1.Ending_Envoy{Envoy: r}}
	}
	const timeout = "upstream_reset_before_response_started{connection_timeout}"
	for _, c := range []struct {
		ending    *retryv1.Ending
		evidence  retryv1.Evidence
		permanent retryv1.PermanentCategory
	}{
		{&retryv1.Ending{}, retryv1.Evidence_EVIDENCE_SENT_NO_RESPONSE, 0},
		{stage(retryv1.Stage_STAGE_UNSPECIFIED), retryv1.Evidence_EVIDENCE_SENT_NO_RESPONSE, 0},
		{stage(retryv1.Stage_STAGE_TLS), retryv1.Evidence_EVIDENCE_NOT_SENT, 0},
		{stage(retryv1.Stage_STAGE_RESPONSE_BODY), retryv1.Evidence_EVIDENCE_PARTIAL_RESPONSE, 0},
		{envoy(&retryv1.EnvoyReply{Details: timeout, WireBytesSent: &zero, UpstreamAttemptCount: &one}), retryv1.Evidence_EVIDENCE_NOT_SENT, 0},
		{envoy(&retryv1.EnvoyReply{Details: timeout, UpstreamAttemptCount: &one}), retryv1.Evidence_EVIDENCE_SENT_NO_RESPONSE, 0},
		{envoy(&retryv1.EnvoyReply{Details: timeout, WireBytesSent: &zero}), retryv1.Evidence_EVIDENCE_SENT_NO_RESPONSE, 0},
		{envoy(&retryv1.EnvoyReply{Details: "route_not_found", WireBytesSent: &zero, UpstreamAttemptCount: &zero}), retryv1.Evidence_EVIDENCE_NOT_SENT, retryv1.PermanentCategory_PERMANENT_CATEGORY_NO_ROUTE},
		{envoy(&retryv1.EnvoyReply{Details: "via_upstream", Status: 503}), retryv1.Evidence_EVIDENCE_RESPONSE_RECEIVED, 0},
		{&retryv1.Ending{Ending: &retryv1.Ending_Http{Http: &retryv1.HttpResponse{Status: 503}}}, retryv1.Evidence_EVIDENCE_RESPONSE_RECEIVED, 0},
	} {
		resp, err := l.Classify(t.Context(), &retryv1.ClassifyRequest{Ending: c.ending})
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetEvidence() != c.evidence || resp.GetPermanent() != c.permanent || resp.GetWhy() == "" {
			t.Errorf("%v: %v", c.ending, resp)
		}
	}
}

// A status that Envoy made itself is not the upstream's: a 429 by a local reply is no word of its.
func TestEnvoyStatusCountsFromTheUpstreamOnly(t *testing.T) {
	l := newLab(t)
	f := refused()
	f.Call.Method = "POST"
	f.Delivery = retryv1.Delivery_DELIVERY_NOT_DELIVERED
	for details, want := range map[string]retryv1.Verdict{
		"via_upstream":               retryv1.Verdict_VERDICT_RETRY,
		"response_payload_too_large": retryv1.Verdict_VERDICT_AMBIGUOUS,
		"upstream_reset_after_response_started{connection_termination}": retryv1.Verdict_VERDICT_AMBIGUOUS,
		"": retryv1.Verdict_VERDICT_AMBIGUOUS,
	} {
		f.Ending = &retryv1.Ending{Ending: &retryv1.Ending_Envoy{Envoy: &retryv1.EnvoyReply{Details: details, Status: 429}}}
		if got := l.decide(t, f).GetDecision().GetVerdict(); got != want {
			t.Errorf("%q: %v, want %v", details, got, want)
		}
	}
}

// What a caller says of earlier attempts counts only by what is declared now: declarations that were
// looser, or trusted a status, may have said it of an attempt that was executed.
func TestLooserBefore(t *testing.T) {
	distrusting := decision.DefaultPolicy()
	distrusting.Distrusted.Add(429)
	safe := map[string]decision.Idempotency{"POST": decision.Safe}
	for name, test := range map[string]struct {
		now, before *declared
		attempt     uint32
		want        retryv1.Reason
	}{
		"a class":           {&declared{policy: decision.DefaultPolicy()}, &declared{policy: decision.DefaultPolicy(), operations: safe}, 2, retryv1.Reason_REASON_EARLIER_ATTEMPT},
		"a status":          {&declared{policy: distrusting}, &declared{policy: decision.DefaultPolicy()}, 2, retryv1.Reason_REASON_EARLIER_ATTEMPT},
		"the first attempt": {&declared{policy: distrusting}, &declared{policy: decision.DefaultPolicy()}, 1, retryv1.Reason_REASON_UNSPECIFIED},
		"not looser":        {&declared{policy: decision.DefaultPolicy()}, &declared{policy: distrusting}, 2, retryv1.Reason_REASON_UNSPECIFIED},
		"nothing before":    {&declared{policy: distrusting}, nil, 2, retryv1.Reason_REASON_UNSPECIFIED},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			*l.declared = *test.now
			if test.before != nil {
				l.declared.before = []*declared{test.before}
			}
			f := refused()
			f.Call = &retryv1.Call{Method: "POST", Path: "/pay"}
			f.Attempt = test.attempt
			f.Earlier = &retryv1.Earlier{Execution: retryv1.Execution_EXECUTION_NOT_EXECUTED, Certainty: retryv1.Certainty_CERTAINTY_CERTAIN}
			if d := l.decide(t, f).GetDecision(); d.GetReason() != test.want {
				t.Errorf("%v", d)
			}
		})
	}
}
