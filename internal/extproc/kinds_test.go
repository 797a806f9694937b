package extproc

import (
	"bytes"
	"fmt"
	"testing"

	extprocfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/internal/evidence"
)

var roles = []string{"judge", "finalizer", ""}

func roleMetadata(role string) metadata.MD {
	return judgeMetadata(evidence.MetadataRole, role)
}

// everyKind is a request and its answer as Envoy shows them with every message switched on.
func everyKind() []*extprocv3.ProcessingRequest {
	return []*extprocv3.ProcessingRequest{
		showRequest(nil),
		{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: []byte("ask")}}},
		{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: []byte{0xff}, EndOfStream: true}}},
		{Request: &extprocv3.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocv3.HttpTrailers{Trailers: headerMap("t", "v")}}},
		responseHeaders(false, ":status", "200"),
		{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{Body: []byte("say"), GrpcMessageCompressed: true}}},
		{Request: &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: &extprocv3.HttpBody{EndOfStream: true, EndOfStreamWithoutMessage: true}}},
		{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{Trailers: headerMap("t", "v")}}},
	}
}

// TestEveryKindInEveryMode: each message gets the answer of its kind, and bodies come back unchanged
// where Envoy has given them away.
func TestEveryKindInEveryMode(t *testing.T) {
	for _, role := range roles {
		for mode, name := range extprocfilterv3.ProcessingMode_BodySendMode_name {
			t.Run(fmt.Sprintf("%s %s", role, name), func(t *testing.T) {
				inLab(t, "", func(t *testing.T, l *lab) {
					e := l.open(t, roleMetadata(role))
					e.requestBody = extprocfilterv3.ProcessingMode_BodySendMode(mode)
					e.responseBody = e.requestBody
					for _, req := range everyKind() {
						a := e.send(req)
						if a.err != nil {
							t.Fatal(a.err)
						}
						if a.set[evidence.Control] != "" {
							t.Errorf("a control header in answer to %T", req.GetRequest())
						}
						body := req.GetRequestBody()
						if body == nil {
							body = req.GetResponseBody()
						}
						if a.streamed == nil || body == nil {
							continue // the fake has checked that it is so in the right modes
						}
						if s := a.streamed; !bytes.Equal(s.GetBody(), body.GetBody()) || s.GetEndOfStream() != body.GetEndOfStream() ||
							s.GetEndOfStreamWithoutMessage() != body.GetEndOfStreamWithoutMessage() || s.GetGrpcMessageCompressed() != body.GetGrpcMessageCompressed() {
							t.Errorf("%v comes back as %v", body, s)
						}
					}
					e.close()
				})
			})
		}
	}
}

// TestObservability: nobody waits for an answer, so none is sent, nothing is waited for and no token is
// taken. What would have been decided is counted as a retry that nobody executed.
func TestObservability(t *testing.T) {
	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			inLab(t, "", func(t *testing.T, l *lab) {
				e := l.open(t, roleMetadata(role))
				e.observability = true
				for _, req := range everyKind() {
					e.send(req)
				}
				get := []string{"method=GET", "details=via_upstream", "cluster=app", "attempts=1", "outer-details=via_upstream"}
				if role == "" {
					e.send(showRequest([]string{"end"}))
					e.send(showAnswer(get))
				} else {
					e.send(showHeaders(get))
					e.send(showBody([]string{"end"}))
				}
				e.close()
				l.wantEvents(t)
				decided := l.counts(t, "verdict_decisions_total")
				if decided["evidence=RESPONSE_RECEIVED,reason=retry_not_executed,upstream=app,verdict=denied"] != 1 {
					t.Errorf("decided: %v", decided)
				}
			})
		})
	}
}

// TestTransportMessages ask for nothing.
func TestTransportMessages(t *testing.T) {
	for _, role := range roles {
		inLab(t, "", func(t *testing.T, l *lab) {
			s, err := l.process(roleMetadata(role), 0,
				&extprocv3.ProcessingRequest{FlowControlInit: &extprocv3.ProcessingRequest_FlowControlInit{}},
				&extprocv3.ProcessingRequest{ClientWindowUpdate: &extprocv3.ProcessingRequest_ClientWindowUpdate{}})
			if err != nil || len(s.out) != 0 {
				t.Errorf("%s: %v, %v", role, s.out, err)
			}
		})
	}
}

// TestEmptyMessages: no kind, and every kind with nothing in it.
func TestEmptyMessages(t *testing.T) {
	for _, role := range roles {
		inLab(t, "", func(t *testing.T, l *lab) {
			if _, err := l.process(roleMetadata(role), 0, &extprocv3.ProcessingRequest{}); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: a message of no kind ends with %v", role, err)
			}
			empty := []*extprocv3.ProcessingRequest{
				{Request: &extprocv3.ProcessingRequest_RequestHeaders{}}, {Request: &extprocv3.ProcessingRequest_ResponseHeaders{}},
				{Request: &extprocv3.ProcessingRequest_RequestBody{}}, {Request: &extprocv3.ProcessingRequest_ResponseBody{}},
				{Request: &extprocv3.ProcessingRequest_RequestTrailers{}}, {Request: &extprocv3.ProcessingRequest_ResponseTrailers{}},
			}
			s, err := l.process(roleMetadata(role), 0, append(empty, empty...)...)
			if err != nil || len(s.out) != 2*len(empty) {
				t.Errorf("%s: %d answers, %v", role, len(s.out), err)
			}
		})
	}
}

// TestMetadata: what is given twice, or to a role that does not exist, is an error that names it.
func TestMetadata(t *testing.T) {
	inLab(t, "", func(t *testing.T, l *lab) {
		for _, key := range []string{evidence.MetadataRole, evidence.MetadataReplayLimit, evidence.MetadataRetries, evidence.MetadataMaxWait, evidence.MetadataMaxHeaders, evidence.MetadataKeyHeader} {
			md := judgeMetadata()
			md.Append(key, md.Get(key)[0])
			e := l.open(t, md)
			a := e.send(showHeaders(nil))
			if want := "stream metadata " + key + ": given 2 times"; status.Code(a.err) != codes.InvalidArgument || status.Convert(a.err).Message() != want {
				t.Errorf("%v, want %s", a.err, want)
			}
		}
		l.wantEvents(t)
	})
}
