package extproc

import (
	"context"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// finalizer labels a failing answer that nobody has labelled, on its way out of the outer hop. It
// never retries, and so holds no token. An answer at Envoy's header limit goes on to Envoy's own label.
// One that still has the judge's word for router A is of a retry that router A has not done: only now is
// it known that the report beside it holds.
type finalizer struct{ *call }

func (f *finalizer) handle(ctx context.Context, req *extprocv3.ProcessingRequest) (*extprocv3.ProcessingResponse, error) {
	m, ok := req.GetRequest().(*extprocv3.ProcessingRequest_ResponseHeaders)
	if !ok {
		return f.bodies.passOn(req)
	}
	f.begin(ctx)
	answer := evidence.NewHeaders(m.ResponseHeaders.GetHeaders())
	attempt := evidence.FromOuter(answer, f.key(req))
	attempt.Override = attempt.Override || evidence.OverrideAttribute(req.GetAttributes())
	failed := f.examine(attempt)
	if f.shadows(failed.Cluster) {
		return new(reply).toHeaders(), nil // the judge has watched it
	}
	refused := answer.Has(evidence.Control)
	if refused { // there was a token, and nobody drained
		failed.facts.Budget, failed.facts.Runtime = decision.BudgetUnknown, decision.RuntimeServing
		failed.facts.Credential = decision.CredentialRefreshable // or a 401 would not have been replayed
	}
	d := failed.decide(f.server.random())
	if d.Verdict == decision.Retry {
		d = d.Deny(decision.ReasonRetryNotExecuted)
	}
	f.observe(failed, d)
	if refused && answer.Has(evidence.ReportVerdict) {
		return new(reply).toHeaders(), nil
	}
	f.server.Metrics.Finalized.Inc()
	for _, r := range []*reply{newReply(failed, d), oneWord(d)} {
		if r.fits(answer, f.limits.maxHeaders) {
			return r.toHeaders(), nil
		}
	}
	return new(reply).toHeaders(), nil
}
