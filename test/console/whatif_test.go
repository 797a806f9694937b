package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// whatIf: the page asks what Explain answers.
func (l *lab) whatIf(t *testing.T, p *tab, caseID string) {
	p.click("nav a[href='#what-if']")
	p.accessible("an empty form")
	for _, preset := range []string{"reset", "unavailable", "refused", "third"} {
		p.click("[data-preset=" + preset + "]")
		p.wait("document.querySelector('#answer .verdict')")
	}
	p.sees("#answer .verdict", "max_attempts")
	p.click("#facts [type=reset]")
	p.wait("document.querySelector('#facts [name=attempt]').value === ''")

	p.write("#facts [name=upstream]", "app")
	p.write("#facts [name='call.method']", "POST")
	p.write("#facts [name='call.path']", "/charge?order=1")
	p.write("#facts [name='call.idempotency_keys']", "k-1")
	p.choose("#facts [name='body.kind']", "BODY_KIND_BYTES")
	p.choose("#facts [name=ending]", "envoy")
	p.write("#facts [name='ending.envoy.details']", "via_upstream")
	p.write("#facts [name='ending.envoy.wire_bytes_sent']", "412")
	p.write("#facts [name='ending.envoy.upstream_attempt_count']", "1")
	p.write("#facts [name=status]", "503")
	p.write("#facts [name=retry_after]", "1")
	p.choose("#facts [name=delivery]", "DELIVERY_NOT_DELIVERED")
	p.choose("#facts [name=early_data]", "EARLY_DATA_NOT_SENT")
	p.choose("#facts [name=runtime]", "RUNTIME_SERVING")
	p.write("#facts [name=attempt]", "2")
	p.choose("#facts [name='earlier.execution']", "EXECUTION_NOT_EXECUTED")
	p.choose("#facts [name='earlier.certainty']", "CERTAINTY_CERTAIN")
	p.write("#facts [name=deadline]", "2.5s")
	p.write("#facts [name=max_wait]", "11s")
	p.click("#facts [type=submit]")
	p.sees("#answer .verdict", "retry")
	bytes, tries := uint64(412), uint64(1)
	facts := &retryv1.Facts{
		Upstream: "app", Call: &retryv1.Call{Method: "POST", Path: "/charge?order=1", IdempotencyKeys: []string{"k-1"}},
		Body: &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_BYTES},
		Ending: &retryv1.Ending{Ending: &retryv1.Ending_Envoy{Envoy: &retryv1.EnvoyReply{
			Details: "via_upstream", WireBytesSent: &bytes, UpstreamAttemptCount: &tries, Status: 503,
			Headers: []*retryv1.Header{{Name: "retry-after", Value: "1"}},
		}}},
		Delivery: retryv1.Delivery_DELIVERY_NOT_DELIVERED, EarlyData: retryv1.EarlyData_EARLY_DATA_NOT_SENT, Runtime: retryv1.Runtime_RUNTIME_SERVING,
		Attempt: 2, Earlier: &retryv1.Earlier{Execution: retryv1.Execution_EXECUTION_NOT_EXECUTED, Certainty: retryv1.Certainty_CERTAINTY_CERTAIN},
		Deadline: &retryv1.Facts_Remaining{Remaining: durationpb.New(2_500_000_000)}, MaxWait: durationpb.New(11_000_000_000),
	}
	l.wantAnswer(t, p, facts)
	p.write("#facts [name=attempt]", "3")
	p.press(kb.Enter)
	p.sees("#answer .verdict", "max_attempts")
	facts.Attempt = 3
	l.wantAnswer(t, p, facts)
	p.click("#answer summary")
	p.sees("#answer pre", `"wire_bytes_sent": "412"`)
	p.accessible("an answer")

	for _, wrong := range []struct{ field, value, words string }{
		{"deadline", "soon", "is no time"}, {"attempt", "two", "is no whole number"}, {"status", "1000", "999"},
	} {
		before := eval[string](p, "document.querySelector('#facts [name="+wrong.field+"]').value")
		p.write("#facts [name="+wrong.field+"]", wrong.value)
		p.click("#facts [type=submit]")
		p.sees("#facts-problem", wrong.words)
		p.wait("document.activeElement.name === " + quote(wrong.field) + " && document.activeElement.getAttribute('aria-invalid') === 'true'")
		p.write("#facts [name="+wrong.field+"]", before)
	}
	p.forgive("400 (Bad Request) " + l.url + "call/retry.v1.DecisionService/Explain") // the last one

	// A case's facts lead to its ladder again.
	p.run(navigate(l.url + "#ledger/" + caseID))
	p.click("#case a.button")
	p.sees("#answer .verdict", "gateway_status")
	c := l.get(t, caseID)
	p.wantLadder(t, "#answer", c.GetRules())
	l.wantAnswer(t, p, c.GetFacts())
}

func (l *lab) wantAnswer(t *testing.T, p *tab, facts *retryv1.Facts) {
	t.Helper()
	want, err := l.decisions.Explain(t.Context(), &retryv1.ExplainRequest{Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	d := want.GetDecision()
	lower := func(prefix string, value fmt.Stringer) string {
		return strings.ToLower(strings.TrimPrefix(value.String(), prefix))
	}
	said := p.text("#answer .verdict")
	for _, word := range []string{lower("VERDICT_", d.GetVerdict()), lower("EVIDENCE_", d.GetEvidence()), lower("CERTAINTY_", d.GetCertainty()),
		lower("IDEMPOTENCY_", d.GetIdempotency()), fmt.Sprintf("by rule %d", d.GetRule()), d.GetOperation()} {
		if !strings.Contains(said, word) {
			t.Errorf("no %q in %q", word, said)
		}
	}
	p.wantLadder(t, "#answer", want.GetRules())
}
