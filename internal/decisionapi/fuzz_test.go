package decisionapi

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// FuzzDecide sends bytes to Decide. Whatever they are: no panic; an answer, or INVALID_ARGUMENT that names
// a field; and a retry only for what the message itself permits.
func FuzzDecide(f *testing.F) {
	post := refused()
	post.Call = &retryv1.Call{Method: "POST", Path: "/pay", Idempotency: retryv1.Idempotency_IDEMPOTENCY_SAFE}
	status503 := refused()
	status503.Delivery = retryv1.Delivery_DELIVERY_NOT_DELIVERED
	status503.Ending = &retryv1.Ending{Ending: &retryv1.Ending_Http{Http: &retryv1.HttpResponse{
		Status: 503, Headers: []*retryv1.Header{{Name: "Retry-After", Value: "1"}},
	}}}
	zero, one := uint64(0), uint64(1)
	envoy := refused()
	envoy.Ending = &retryv1.Ending{Ending: &retryv1.Ending_Envoy{Envoy: &retryv1.EnvoyReply{
		Details: "upstream_reset_before_response_started{connection_timeout}", WireBytesSent: &zero, UpstreamAttemptCount: &one,
	}}}
	multipart := refused()
	multipart.Body = &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_MULTIPART, Parts: []*retryv1.Body{{Kind: 2}, {Kind: 8, Declared: 3}}}
	for _, facts := range []*retryv1.Facts{refused(), post, status503, envoy, multipart, {}} {
		data, err := proto.Marshal(&retryv1.DecideRequest{Facts: facts})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	l := newLab(f)
	l.operations = map[string]decision.Idempotency{"PUT": decision.NonIdempotent}
	unlimited := memory.New(func(string) budget.Settings { return budget.Unlimited }, memory.Options{})
	f.Cleanup(func() { _ = unlimited.Close() })
	l.Budget = unlimited
	f.Fuzz(func(t *testing.T, data []byte) {
		req := new(retryv1.DecideRequest)
		broken := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, req)
		if broken == nil {
			broken = codec.failure(req, nil)
		}
		if broken == nil {
			wantAgreement(t, req)
		}
		var resp *retryv1.DecideResponse
		err := broken
		if err == nil {
			resp, err = l.Decide(context.Background(), req)
		}
		if err != nil {
			wantNamedField(t, err)
			return
		}
		d := resp.GetDecision()
		if resp.GetGrant() != "" && d.GetVerdict() != retryv1.Verdict_VERDICT_RETRY {
			t.Errorf("%v with a token", d)
		}
		if d.GetVerdict() == retryv1.Verdict_VERDICT_RETRY {
			wantPermitted(t, req.GetFacts(), d)
		}
	})
}

// wantAgreement: what is written out says what the schema says.
func wantAgreement(t *testing.T, req *retryv1.DecideRequest) {
	t.Helper()
	if validateBody(req.GetFacts().GetBody()) != nil {
		return
	}
	fast := requestIDOK(req) && wellFormed(req.GetFacts())
	slow := errors.Join(validateTimes(req), validateRules(req))
	if fast != (slow == nil) {
		t.Errorf("written out: %v, schema: %v, for %v", fast, slow, req)
	}
}

func wantNamedField(t *testing.T, err error) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != codes.InvalidArgument || len(s.Details()) != 1 {
		t.Fatalf("%v: %v", s.Code(), err)
	}
	bad, ok := s.Details()[0].(*errdetails.BadRequest)
	if !ok || len(bad.GetFieldViolations()) == 0 || bad.GetFieldViolations()[0].GetDescription() == "" {
		t.Fatalf("details %v", s.Details())
	}
}

// wantPermitted is a second reading of the message, of what no retry may do without.
func wantPermitted(t *testing.T, f *retryv1.Facts, d *retryv1.Decision) {
	t.Helper()
	switch {
	case f.GetAttempt() < 1 || f.GetAttempt() > 2,
		f.GetBody().GetKind() == retryv1.BodyKind_BODY_KIND_UNSPECIFIED,
		f.GetBody().GetKind() == retryv1.BodyKind_BODY_KIND_STREAM,
		f.GetDelivery() == retryv1.Delivery_DELIVERY_DELIVERED,
		f.GetRuntime() == retryv1.Runtime_RUNTIME_DRAINING,
		f.Deadline == nil,
		f.GetRemaining() != nil && f.GetRemaining().AsDuration() < d.GetWait().AsDuration(),
		f.GetMaxWait() != nil && f.GetMaxWait().AsDuration() < d.GetWait().AsDuration():
		t.Errorf("%v for %v", d, f)
	}
	non := d.GetIdempotency() == retryv1.Idempotency_IDEMPOTENCY_NON_IDEMPOTENT
	if (f.GetCall().GetMethod() == "POST" || f.GetCall().GetMethod() == "PUT") && !non {
		t.Errorf("%s is %v", f.GetCall().GetMethod(), d.GetIdempotency())
	}
	if non && d.GetExecution() != retryv1.Execution_EXECUTION_NOT_EXECUTED {
		t.Errorf("a non-idempotent request that is %v is retried: %v", d.GetExecution(), f)
	}
}
