package extproc

import (
	"context"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// plain serves a stream without a role: an ordinary ext_proc filter in an ordinary listener. The facts
// come from the stream's own messages and the attributes that the operator asked for; what is missing
// is read the safe way. The verdict goes out as report headers, and nothing acts on it.
type plain struct {
	*call
	exchange evidence.Exchange
}

func (p *plain) handle(ctx context.Context, req *extprocv3.ProcessingRequest) (*extprocv3.ProcessingResponse, error) {
	p.exchange.Attributes(req.GetAttributes())
	switch m := req.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		p.exchange.Request(evidence.NewHeaders(m.RequestHeaders.GetHeaders()), m.RequestHeaders.GetEndOfStream(), p.limits.keyHeader)
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return p.answer(ctx, evidence.NewHeaders(m.ResponseHeaders.GetHeaders())), nil
	}
	return p.bodies.passOn(req)
}

func (p *plain) answer(ctx context.Context, answer evidence.Headers) *extprocv3.ProcessingResponse {
	p.begin(ctx)
	f := p.examinePlain(p.exchange.Answer(answer))
	d := f.decide(p.server.random())
	if p.shadows(f.Cluster) {
		return p.watch(f, d, answer)
	}
	if d.Verdict == decision.Retry {
		d = p.advise(ctx, f, d, answer)
	}
	p.observe(f, d)
	r := newReply(f, d)
	if !r.fits(answer, p.limits.maxHeaders) {
		r = new(reply)
	}
	return r.toHeaders()
}

// advise pays for a retry that is advised like for one that is done. One that nobody hears costs
// nothing.
func (p *plain) advise(ctx context.Context, f *failure, d decision.Decision, answer evidence.Headers) decision.Decision {
	if p.observing || !newReply(f, d).fits(answer, p.limits.maxHeaders) {
		return d.Deny(decision.ReasonRetryNotExecuted)
	}
	if _, ok := f.account.TryWithdraw(ctx); !ok {
		return d.Deny(decision.ReasonBudgetExhausted)
	}
	return d
}
