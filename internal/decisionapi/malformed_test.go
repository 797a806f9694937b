package decisionapi

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// wantField checks for INVALID_ARGUMENT with details that name the field.
func wantField(t *testing.T, err error, field string) {
	t.Helper()
	s := status.Convert(err)
	var fields []string
	for _, d := range s.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				fields = append(fields, v.GetField())
			}
		}
	}
	if s.Code() != codes.InvalidArgument || !slices.Contains(fields, field) {
		t.Errorf("%v: %s, fields %q, want %s of %q", s.Code(), s.Message(), fields, codes.InvalidArgument, field)
	}
}

func TestMalformed(t *testing.T) {
	l := newLab(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	http := func(r *retryv1.HttpResponse) *retryv1.Ending {
		return &retryv1.Ending{Ending: &retryv1.Ending_Http{Http: r}}
	}
	observation := func(o *retryv1.Observation) *retryv1.Ending {
		return &retryv1.Ending{Ending: &retryv1.Ending_Observation{Observation: o}}
	}
	huge := uint64(1) << 63
	for field, spoil := range map[string]func(*retryv1.Facts){
		"upstream":                 func(f *retryv1.Facts) { f.Upstream = long(257) },
		"call.method":              func(f *retryv1.Facts) { f.Call.Method = long(65) },
		"call.path":                func(f *retryv1.Facts) { f.Call.Path = long(8193) },
		"call.idempotency":         func(f *retryv1.Facts) { f.Call.Idempotency = 5 },
		"call.idempotency_keys":    func(f *retryv1.Facts) { f.Call.IdempotencyKeys = make([]string, 9) },
		"call.idempotency_keys[1]": func(f *retryv1.Facts) { f.Call.IdempotencyKeys = []string{"", long(1025)} },
		"body.kind":                func(f *retryv1.Facts) { f.Body.Kind = -1 },
		"body.parts[0].declared":   func(f *retryv1.Facts) { f.Body.Parts = []*retryv1.Body{{Declared: 4}} },
		"early_data":               func(f *retryv1.Facts) { f.EarlyData = 3 },
		"attempt":                  func(f *retryv1.Facts) { f.Attempt = 1000001 },
		"earlier.execution":        func(f *retryv1.Facts) { f.Earlier = &retryv1.Earlier{Execution: 3} },
		"earlier.certainty":        func(f *retryv1.Facts) { f.Earlier = &retryv1.Earlier{Certainty: 3} },
		"previous_wait":            func(f *retryv1.Facts) { f.PreviousWait = durationpb.New(-1) },
		"delivery":                 func(f *retryv1.Facts) { f.Delivery = 3 },
		"credential":               func(f *retryv1.Facts) { f.Credential = 4 },
		"remaining": func(f *retryv1.Facts) {
			f.Deadline = &retryv1.Facts_Remaining{Remaining: &durationpb.Duration{Seconds: 86401}}
		},
		"max_wait":            func(f *retryv1.Facts) { f.MaxWait = &durationpb.Duration{Seconds: 1 << 62} },
		"runtime":             func(f *retryv1.Facts) { f.Runtime = 3 },
		"ending.http.status":  func(f *retryv1.Facts) { f.Ending = http(&retryv1.HttpResponse{Status: 1000}) },
		"ending.http.headers": func(f *retryv1.Facts) { f.Ending = http(&retryv1.HttpResponse{Headers: make([]*retryv1.Header, 201)}) },
		"ending.http.headers[0].value": func(f *retryv1.Facts) {
			f.Ending = http(&retryv1.HttpResponse{Headers: []*retryv1.Header{{Name: "date", Value: long(8193)}}})
		},
		"ending.envoy.wire_bytes_sent": func(f *retryv1.Facts) {
			f.Ending = &retryv1.Ending{Ending: &retryv1.Ending_Envoy{Envoy: &retryv1.EnvoyReply{WireBytesSent: &huge}}}
		},
		"ending.observation.evidence": func(f *retryv1.Facts) {
			f.Ending = observation(&retryv1.Observation{Reach: &retryv1.Observation_Evidence{Evidence: 5}})
		},
		"ending.observation.stage":     func(f *retryv1.Facts) { f.Ending = stage(11) },
		"ending.observation.permanent": func(f *retryv1.Facts) { f.Ending = observation(&retryv1.Observation{Permanent: 7}) },
	} {
		f := refused()
		spoil(f)
		_, err := l.decision.Decide(within(t), &retryv1.DecideRequest{Facts: f})
		wantField(t, err, "facts."+field)
		_, err = l.decision.Explain(within(t), &retryv1.ExplainRequest{Facts: f})
		wantField(t, err, "facts."+field)
	}
	_, err := l.decision.Decide(within(t), nil)
	wantField(t, err, "facts")
	_, err = l.decision.Classify(within(t), nil)
	wantField(t, err, "ending")
	_, err = l.decision.Decide(within(t), &retryv1.DecideRequest{Facts: refused(), RequestId: "a\nb"})
	wantField(t, err, "request_id")
	if s := l.Budget.Account("app").State(); s.Retries != 0 {
		t.Errorf("a malformed request was granted a retry: %+v", s)
	}
}

// A duration whose parts contradict each other is no duration.
func TestMalformedDuration(t *testing.T) {
	l := newLab(t)
	for _, d := range []*durationpb.Duration{{Seconds: 1, Nanos: -1}, {Nanos: 2e9}, {Seconds: -1, Nanos: 5}, {Seconds: 1 << 60}} {
		f := refused()
		f.Deadline = &retryv1.Facts_Remaining{Remaining: d}
		_, err := l.decision.Decide(within(t), &retryv1.DecideRequest{Facts: f})
		wantField(t, err, "facts.remaining")
	}
}

func TestMalformedBody(t *testing.T) {
	l := newLab(t)
	deep := func(n int) *retryv1.Body {
		b := new(retryv1.Body)
		for range n - 1 {
			b = &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_MULTIPART, Parts: []*retryv1.Body{b}}
		}
		return b
	}
	f := refused()
	f.Body = deep(8)
	l.decide(t, f)
	f.Body = deep(9)
	_, err := l.decision.Decide(within(t), &retryv1.DecideRequest{Facts: f})
	wantField(t, err, "facts.body"+strings.Repeat(".parts[0]", 8))
	f.Body = deep(5000)
	_, err = l.decision.Decide(within(t), &retryv1.DecideRequest{Facts: f})
	wantField(t, err, "facts.body"+strings.Repeat(".parts[0]", 8))
	f.Body = &retryv1.Body{}
	for range 100 {
		f.Body.Parts = append(f.Body.Parts, &retryv1.Body{})
	}
	_, err = l.decision.Decide(within(t), &retryv1.DecideRequest{Facts: f})
	wantField(t, err, "facts.body.parts[99]")
}

// rawCodec sends bytes as they are.
type rawCodec struct{ encoding.CodecV2 }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

// Bytes that are no message are the client's mistake too.
func TestMalformedBytes(t *testing.T) {
	l := newLab(t)
	for _, method := range []string{"/retry.v1.DecisionService/Decide", "/retry.v1.DecisionService/Explain", "/retry.v1.DecisionService/Classify", "/retry.v1.BudgetService/Deposit", "/retry.v1.BudgetService/Return"} {
		for _, data := range []string{"\xff", "\x0a\xff\xff\xff\xff\x0f", "\x0a\x02\x0a", "\x07", "\x0c", "\x0a"} {
			err := l.conn.Invoke(within(t), method, []byte(data), nil, grpc.ForceCodecV2(rawCodec{}))
			wantField(t, err, "")
		}
	}
	const notUTF8 = "\x1a\x01\xff" // request_id
	err := l.conn.Invoke(within(t), "/retry.v1.DecisionService/Decide", []byte(notUTF8), nil, grpc.ForceCodecV2(rawCodec{}))
	wantField(t, err, "")
	stream, err := l.conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, "/retry.v1.BudgetService/Watch", grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg([]byte("\xff")); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	wantField(t, stream.RecvMsg(nil), "")
}
