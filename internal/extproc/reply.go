package extproc

import (
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// reply is what Envoy is told about an answer that it holds. The zero value passes it on untouched.
type reply struct {
	set     []*corev3.HeaderValueOption
	remove  []string
	problem []byte // replaces the body of one of Envoy's own replies
}

// newReply makes the report on a failing answer. A complete request gets none.
func newReply(f *failure, d decision.Decision) *reply {
	r := &reply{}
	if d.Verdict == decision.Complete {
		return r
	}
	r.set = make([]*corev3.HeaderValueOption, 0, 8)
	r.set = append(r.set, verdictWords[d.Verdict], reasonWords[d.Reason], evidenceWords[d.Evidence], executionWords[d.Execution])
	if f.Number > 0 {
		r.header(evidence.ReportAttempts, strconv.Itoa(f.Number))
	}
	if f.RequestID != "" {
		r.header(evidence.ReportRequestID, f.RequestID)
	}
	if !d.Uncertain {
		return r
	}
	r.header(evidence.ReportAmbiguityID, f.caseID)
	if f.LocalReply && !f.GRPC && f.Method != "HEAD" {
		r.problem = problemBody(f, d)
		r.header("content-type", problemType)
		if status := f.upstream.AmbiguousStatus(); status != 0 {
			r.header(":status", strconv.Itoa(status))
		}
	}
	return r
}

// retry adds what makes router A send the request again. x-envoy-ratelimited on the answer would make
// it refuse.
func (r *reply) retry() *reply {
	r.header(evidence.Control, evidence.ControlRetry)
	r.remove = append(r.remove, evidence.HeaderRateLimited)
	return r
}

// withoutControl removes a control header that the judge did not set.
func (r *reply) withoutControl(answer evidence.Headers) *reply {
	if answer.Has(evidence.Control) {
		r.remove = append(r.remove, evidence.Control)
	}
	return r
}

func (r *reply) header(key, value string) {
	r.set = append(r.set, newLine(key, value))
}

// fits says whether the answer, with what the reply adds, stays within the number and the size of
// headers that Envoy accepts. Beyond it Envoy throws the answer away and makes a 500, whatever
// failure_mode_allow says.
func (r *reply) fits(answer evidence.Headers, maxHeaders int) bool {
	lines, bytes := answer.Len(), answer.Bytes()
	for _, h := range r.set {
		lines++
		bytes += len(h.GetHeader().GetKey()) + len(h.GetHeader().GetRawValue())
	}
	return lines <= maxHeaders && bytes <= maxHeaderBytes
}

// maxHeaderBytes is Envoy's default max_response_headers_kb, less a margin for how it counts.
const maxHeaderBytes = 59 << 10

func (r *reply) mutation() *extprocv3.HeaderMutation {
	if len(r.set) == 0 && len(r.remove) == 0 {
		return nil
	}
	return &extprocv3.HeaderMutation{SetHeaders: r.set, RemoveHeaders: r.remove}
}

func (r *reply) toHeaders() *extprocv3.ProcessingResponse {
	common := &extprocv3.CommonResponse{HeaderMutation: r.mutation()}
	if r.problem != nil {
		common.Status = extprocv3.CommonResponse_CONTINUE_AND_REPLACE
		common.BodyMutation = &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_Body{Body: r.problem}}
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
		ResponseHeaders: &extprocv3.HeadersResponse{Response: common},
	}}
}

func (r *reply) toBody() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{
		ResponseBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{HeaderMutation: r.mutation()}},
	}}
}

// oneWord is the report where one more header fits: a verdict. Where that word alone would hide that
// the request may have been executed, it is ambiguous.
func oneWord(d decision.Decision) *reply {
	r := &reply{}
	switch {
	case d.Uncertain:
		r.header(evidence.ReportVerdict, decision.Ambiguous.String())
	case d.Verdict != decision.Complete:
		r.header(evidence.ReportVerdict, d.Verdict.String())
	}
	return r
}
