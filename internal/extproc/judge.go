package extproc

import (
	"context"
	"io"
	"time"

	extprocfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// judge decides on a failing attempt while Envoy holds its answer. It answers the headers at once
// when it does not retry. When it does, it first makes sure that the wait holds no connection of the
// upstream: Envoy's own replies and answers without a body hold none; of any other answer it asks for
// the whole body, and waits once that is there.
type judge struct {
	*call
	// pending is the failure whose body was asked for, and when its headers came. unsaid is what holds
	// of it where nothing more is said.
	pending *failure
	since   time.Time
	unsaid  decision.Decision
	answer  evidence.Headers
}

func (j *judge) handle(ctx context.Context, req *extprocv3.ProcessingRequest) (*extprocv3.ProcessingResponse, error) {
	switch m := req.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return j.headers(ctx, m.ResponseHeaders, req)
	case *extprocv3.ProcessingRequest_ResponseBody:
		if j.pending != nil {
			return j.body(ctx, m.ResponseBody)
		}
	}
	return j.bodies.passOn(req)
}

func (j *judge) headers(ctx context.Context, h *extprocv3.HttpHeaders, req *extprocv3.ProcessingRequest) (*extprocv3.ProcessingResponse, error) {
	j.begin(ctx)
	j.answer = evidence.NewHeaders(h.GetHeaders())
	attempt := evidence.FromFacts(j.answer, j.key(req))
	attempt.Override = attempt.Override || evidence.OverrideAttribute(req.GetAttributes())
	if !attempt.Known {
		j.server.Metrics.FactsMissing.Inc()
	}
	f := j.examine(attempt)
	j.identify(f, evidence.CredentialOf(req.GetAttributes()))
	d := j.decide(f)
	if j.shadows(f.Cluster) {
		return j.watch(f, d, j.answer), nil
	}
	if d.Verdict != decision.Retry {
		return j.final(f, d).toHeaders(), nil
	}
	if !f.LocalReply && !h.GetEndOfStream() {
		return j.askForBody(f, d), nil
	}
	return j.retry(ctx, f, d, (*reply).toHeaders)
}

// body decides anew once the error body is there: time has passed, and the budget and the draining
// may have changed.
//
// A body that is not whole would hold the upstream's connection during the wait. What was said with
// the question for it holds then, and the stream ends instead of an answer: Envoy (1.40, ext_proc,
// BUFFERED_PARTIAL) forgets the end of a body that has come, without a byte, while it waits for the
// answer to a part. The client would wait for that end until the deadline, or the next request on the
// connection between the hops would get no answer. When the stream ends it forgets nothing.
func (j *judge) body(ctx context.Context, b *extprocv3.HttpBody) (*extprocv3.ProcessingResponse, error) {
	f := j.pending
	j.pending, j.deciding.since = nil, time.Now()
	if !b.GetEndOfStream() {
		j.final(f, j.unsaid)
		return nil, io.EOF
	}
	f.facts.Remaining -= time.Since(j.since)
	d := j.decideAgain(f)
	if d.Verdict != decision.Retry {
		return j.final(f, d).toBody(), nil
	}
	return j.retry(ctx, f, d, (*reply).toBody)
}

// decideAgain looks again at what may have changed while the answer was held.
func (j *judge) decideAgain(f *failure) decision.Decision {
	f.facts.Runtime = j.server.runtime(f.Cluster)
	if f.account.Empty() {
		f.facts.Budget = decision.BudgetEmpty
	}
	return j.decide(f)
}

// decide never says retry where Envoy's configuration does not say how long the judge can wait, where
// nobody listens, nor where an answer at Envoy's header limit has no room for the word.
func (j *judge) decide(f *failure) decision.Decision {
	d := f.decide(j.server.random())
	if d.Verdict != decision.Retry {
		return d
	}
	switch {
	case !f.Known, j.observing, !new(reply).retry().fits(j.answer, j.limits.maxHeaders):
		return d.Deny(decision.ReasonRetryNotExecuted)
	case j.limits.maxWait <= 0:
		return d.Deny(decision.ReasonDeadline)
	}
	return d
}

// retry takes the token, waits, and says retry; to makes the message that Envoy waits for. The report
// goes with it, for the case that router A does not send the request again. The token goes back when
// the retry was not said: a message that cannot be sent has not been. After a 401 a refresh comes before
// all that.
func (j *judge) retry(ctx context.Context, f *failure, d decision.Decision, to func(*reply) *extprocv3.ProcessingResponse) (*extprocv3.ProcessingResponse, error) {
	refreshes := f.ours != nil
	if refreshes {
		defer j.server.Drain.hold()()
		if err := j.stream.Send(extendTimeout(f.longestHold() + j.limits.slack)); err != nil {
			return nil, err
		}
		j.decided()
		again, heard := j.refresh(ctx, f)
		switch {
		case !heard:
			j.abandoned(f, d)
			return nil, nil
		case again.Verdict != decision.Retry:
			return to(j.final(f, again)), nil
		}
		d = again
	}
	grant, ok := f.account.TryWithdraw(ctx)
	if !ok {
		return to(j.final(f, d.Deny(decision.ReasonBudgetExhausted))), nil
	}
	if !refreshes { // Envoy (1.40) takes the longer time once a message
		defer j.server.Drain.hold()()
		if err := j.stream.Send(extendTimeout(d.Wait + j.limits.slack)); err != nil {
			f.account.Return(grant)
			return nil, err
		}
	}
	j.decided()
	begin := time.Now()
	j.deciding.span.Wait(d.Wait)
	switch j.server.Drain.wait(ctx, d.Wait) {
	case waitCancelled:
		f.account.Return(grant)
		j.abandoned(f, d)
		return nil, nil
	case waitDrained:
		f.account.Return(grant)
		return to(j.final(f, d.Deny(decision.ReasonRuntimeDraining))), nil
	}
	if j.server.Runtime != nil && j.server.Runtime(f.Cluster) != decision.RuntimeServing {
		// Drained by hand meanwhile. A process that shuts down lets its waits run on.
		f.account.Return(grant)
		return to(j.final(f, d.Deny(decision.ReasonRuntimeDraining))), nil
	}
	if err := j.stream.Send(to(j.sayRetry(f, d))); err != nil {
		f.account.Return(grant)
		j.abandoned(f, d)
		return nil, err
	}
	j.observe(f, d)
	j.server.Metrics.Waited.Observe(time.Since(begin).Seconds())
	return nil, nil
}

// sayRetry makes the answer that router A obeys. Near Envoy's header limit the report is left out.
func (j *judge) sayRetry(f *failure, d decision.Decision) *reply {
	r := newReply(f, d.Deny(decision.ReasonRetryNotExecuted)).retry()
	if !r.fits(j.answer, j.limits.maxHeaders) {
		r = new(reply).retry()
	}
	return r
}

// final is the answer that ends the request. Near Envoy's header limit it is left to the finalizer,
// whose hop takes more headers and which counts it.
func (j *judge) final(f *failure, d decision.Decision) *reply {
	f.tell()
	r := newReply(f, d)
	if len(r.set) > 0 && !r.fits(j.answer, j.limits.maxHeaders) {
		j.deciding.span.Event("left to the finalizer")
		return new(reply).withoutControl(j.answer)
	}
	j.observe(f, d)
	return r.withoutControl(j.answer)
}

// end is the stream's end: a body that was asked for has not come, because the upstream has cut it off or the
// client has left, and no replay follows.
func (j *judge) end() {
	if j.pending != nil {
		j.pending.tell()
	}
}

// smallBody is collected whole by every buffer limit in use (Envoy's default is 1 MiB; its guide for
// edge proxies says 32 KiB): an answer of so few bytes that the judge has no more to say about was not
// too large, the judge was given up.
const smallBody = 32 << 10

// askForBody lets Envoy collect the error body, up to its buffer limit, before it asks again. The
// report that goes with it holds where nothing more is said.
func (j *judge) askForBody(f *failure, d decision.Decision) *extprocv3.ProcessingResponse {
	reason := decision.ReasonErrorBodyTooLarge
	if n := j.answer.ContentLength(); n >= 0 && n <= smallBody {
		reason = decision.ReasonRetryNotExecuted
	}
	j.deciding.span.Event("error body asked for")
	j.pending, j.since, j.unsaid = f, time.Now(), d.Deny(reason)
	r := newReply(f, j.unsaid)
	if !r.fits(j.answer, j.limits.maxHeaders) {
		r = new(reply)
	}
	resp := r.withoutControl(j.answer).toHeaders()
	resp.ModeOverride = &extprocfilterv3.ProcessingMode{
		ResponseHeaderMode: extprocfilterv3.ProcessingMode_SEND,
		ResponseBodyMode:   extprocfilterv3.ProcessingMode_BUFFERED_PARTIAL,
	}
	return resp
}

func extendTimeout(d time.Duration) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{OverrideMessageTimeout: durationpb.New(max(d, time.Millisecond))}
}
