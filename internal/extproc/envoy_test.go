package extproc

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/internal/evidence"
)

// envoy is one ext_proc filter as strict as Envoy 1.40: whatever Envoy would refuse, ignore, count as
// spurious or turn into an error of its own fails the test.
type envoy struct {
	t      testing.TB
	stream grpc.BidiStreamingClient[extprocv3.ProcessingRequest, extprocv3.ProcessingResponse]
	cancel context.CancelFunc

	messageTimeout, maxMessageTimeout time.Duration
	allowModeOverride, allowEnvoy     bool
	observability                     bool
	// mayRefuse: it takes an immediate response, as the credential filter does.
	mayRefuse                 bool
	requestBody, responseBody extprocfilterv3.ProcessingMode_BodySendMode
	maxHeaders                int

	headerLines, headerBytes int // of the answer that is being judged
	opened                   bool
}

// maxResponseHeaders is Envoy's default max_response_headers_kb.
const maxResponseHeaders = 60 << 10

// answer is what Envoy was told in reply to one message.
type answer struct {
	err      error
	took     time.Duration // fake time
	set      map[string]string
	removed  []string
	problem  string // the body that replaces the answer's
	asks     bool   // for the body
	streamed *extprocv3.StreamedBodyResponse
	refused  string // the details of the reply that ends the attempt
}

// judgeMetadata is what envoy/hop.yaml gives the judge's stream; values replace or, empty, remove.
func judgeMetadata(replace ...string) metadata.MD {
	md := metadata.Pairs(evidence.MetadataRole, "judge", evidence.MetadataReplayLimit, "1048576", evidence.MetadataRetries, "3",
		evidence.MetadataMaxWait, "12000", evidence.MetadataMaxHeaders, "200", evidence.MetadataKeyHeader, "idempotency-key")
	for i := 0; i < len(replace); i += 2 {
		if replace[i+1] == "" {
			md.Delete(replace[i])
		} else {
			md.Set(replace[i], replace[i+1])
		}
	}
	return md
}

func (l *lab) open(t testing.TB, md metadata.MD) *envoy {
	t.Helper()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(context.Background(), md))
	stream, err := extprocv3.NewExternalProcessorClient(l.connect(t)).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return &envoy{
		t: t, stream: stream, cancel: cancel, messageTimeout: time.Second, maxMessageTimeout: 12 * time.Second,
		allowModeOverride: true, allowEnvoy: true, maxHeaders: 200,
	}
}

// send sends one message and reads up to the one answer that belongs to it.
func (e *envoy) send(req *extprocv3.ProcessingRequest) answer {
	e.t.Helper()
	if !e.opened {
		e.opened = true
		req.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: e.requestBody, ResponseBodyMode: e.responseBody}
	}
	req.ObservabilityMode = e.observability
	if h := req.GetResponseHeaders(); h != nil {
		e.shown(h)
	}
	begin := time.Now()
	if err := e.stream.Send(req); err != nil && err != io.EOF { // EOF: the reason comes by Recv
		return answer{err: err}
	}
	if e.observability {
		return answer{}
	}
	timeout := e.messageTimeout
	for overridden := false; ; overridden = true {
		resp, err := e.stream.Recv()
		if err != nil {
			return answer{err: err}
		}
		took := time.Since(begin)
		if took >= timeout {
			e.t.Errorf("an answer after %v, when Envoy has given up at %v", took, timeout)
		}
		if resp.GetResponse() != nil {
			a := e.read(req, resp)
			a.took = took
			return a
		}
		override := resp.GetOverrideMessageTimeout().AsDuration()
		switch {
		case resp.GetOverrideMessageTimeout() == nil:
			e.t.Errorf("a response without an answer: %v", resp)
		case overridden:
			e.t.Error("a second override of the message timeout, which Envoy ignores")
		case override < time.Millisecond || override > e.maxMessageTimeout:
			e.t.Errorf("an override of %v, which Envoy ignores beyond 1ms and %v", override, e.maxMessageTimeout)
		}
		begin, timeout = time.Now(), override
	}
}

// shown notes the headers that an answer adds to.
func (e *envoy) shown(h *extprocv3.HttpHeaders) {
	e.headerLines, e.headerBytes = len(h.GetHeaders().GetHeaders()), 0
	for _, v := range h.GetHeaders().GetHeaders() {
		e.headerBytes += len(v.GetKey()) + len(v.GetRawValue())
	}
}

// read checks an answer as Envoy does.
func (e *envoy) read(req *extprocv3.ProcessingRequest, resp *extprocv3.ProcessingResponse) answer {
	e.t.Helper()
	if resp.GetOverrideMessageTimeout() != nil {
		e.t.Error("an answer with an override of the message timeout")
	}
	if resp.GetDynamicMetadata() != nil {
		e.t.Errorf("an answer that asks for more than it may: %v", resp)
	}
	a := answer{set: map[string]string{}}
	var common *extprocv3.CommonResponse
	headers := false
	switch r := resp.GetResponse().(type) {
	case *extprocv3.ProcessingResponse_RequestHeaders:
		e.must(req.GetRequestHeaders() != nil, req, resp)
		common, headers = r.RequestHeaders.GetResponse(), true
	case *extprocv3.ProcessingResponse_ResponseHeaders:
		e.must(req.GetResponseHeaders() != nil, req, resp)
		common, headers = r.ResponseHeaders.GetResponse(), true
	case *extprocv3.ProcessingResponse_RequestBody:
		e.must(req.GetRequestBody() != nil, req, resp)
		common = r.RequestBody.GetResponse()
		e.body(e.requestBody, common, &a)
	case *extprocv3.ProcessingResponse_ResponseBody:
		e.must(req.GetResponseBody() != nil, req, resp)
		common = r.ResponseBody.GetResponse()
		e.body(e.responseBody, common, &a)
	case *extprocv3.ProcessingResponse_RequestTrailers:
		e.must(req.GetRequestTrailers() != nil, req, resp)
	case *extprocv3.ProcessingResponse_ResponseTrailers:
		e.must(req.GetResponseTrailers() != nil, req, resp)
	case *extprocv3.ProcessingResponse_ImmediateResponse:
		e.must(e.mayRefuse && req.GetRequestHeaders() != nil, req, resp)
		a.refused = r.ImmediateResponse.GetDetails()
		if r.ImmediateResponse.GetStatus().GetCode() != 503 || r.ImmediateResponse.GetBody() != nil || r.ImmediateResponse.GetHeaders() != nil {
			e.t.Errorf("an immediate response of %v", r.ImmediateResponse)
		}
	default:
		e.t.Errorf("%T to %T", r, req.GetRequest())
	}
	if common.GetClearRouteCache() || common.GetTrailers() != nil {
		e.t.Errorf("an answer that asks for more than it may: %v", resp)
	}
	e.mutation(common.GetHeaderMutation(), &a)
	if headers {
		a.problem = string(common.GetBodyMutation().GetBody())
		replace := common.GetStatus() == extprocv3.CommonResponse_CONTINUE_AND_REPLACE
		if replace != (a.problem != "") {
			e.t.Errorf("status %v with a body of %d bytes", common.GetStatus(), len(a.problem))
		}
	} else if common.GetStatus() != extprocv3.CommonResponse_CONTINUE {
		e.t.Errorf("status %v in an answer to a body", common.GetStatus())
	}
	if override := resp.GetModeOverride(); override != nil {
		a.asks = true
		if !headers || !e.allowModeOverride {
			e.t.Error("a mode_override, which Envoy ignores here")
		}
		if override.GetResponseHeaderMode() != extprocfilterv3.ProcessingMode_SEND || override.GetResponseBodyMode() != extprocfilterv3.ProcessingMode_BUFFERED_PARTIAL {
			e.t.Errorf("mode_override %v", override)
		}
		e.responseBody = override.GetResponseBodyMode()
	}
	return a
}

func (e *envoy) must(ok bool, req *extprocv3.ProcessingRequest, resp *extprocv3.ProcessingResponse) {
	e.t.Helper()
	if !ok {
		e.t.Errorf("spurious message: %T to %T", resp.GetResponse(), req.GetRequest())
	}
}

// body: in these modes Envoy has given the body away and waits for it, in all others it has kept it.
func (e *envoy) body(mode extprocfilterv3.ProcessingMode_BodySendMode, common *extprocv3.CommonResponse, a *answer) {
	e.t.Helper()
	a.streamed = common.GetBodyMutation().GetStreamedResponse()
	duplex := mode == extprocfilterv3.ProcessingMode_FULL_DUPLEX_STREAMED || mode == extprocfilterv3.ProcessingMode_GRPC
	if duplex != (a.streamed != nil) || common.GetBodyMutation().GetMutation() != nil && a.streamed == nil {
		e.t.Errorf("body mutation %v in mode %v", common.GetBodyMutation(), mode)
	}
}

func (e *envoy) mutation(m *extprocv3.HeaderMutation, a *answer) {
	e.t.Helper()
	lines, bytes := e.headerLines, e.headerBytes
	for _, o := range m.GetSetHeaders() {
		key, value := o.GetHeader().GetKey(), string(o.GetHeader().GetRawValue())
		lines, bytes = lines+1, bytes+len(key)+len(value)
		switch {
		case o.GetHeader().GetValue() != "" || value == "":
			e.t.Errorf("%s is not set by raw_value", key)
		case o.GetAppendAction() != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD || o.GetKeepEmptyValue():
			e.t.Errorf("%s: append_action %v", key, o.GetAppendAction())
		case key != strings.ToLower(key) || strings.HasPrefix(key, ":") && key != ":status" || key == "host":
			e.t.Errorf("%s cannot be set", key)
		case strings.HasPrefix(key, "x-envoy-") && !e.allowEnvoy:
			e.t.Errorf("%s may not be set", key)
		case strings.ContainsAny(value, "\r\n\x00"):
			e.t.Errorf("%s: %q is no header value", key, value)
		case a.set[key] != "":
			e.t.Errorf("%s is set twice", key)
		}
		a.set[key] = value
	}
	for _, key := range m.GetRemoveHeaders() {
		if strings.HasPrefix(key, ":") || strings.HasPrefix(key, "x-envoy-") && !e.allowEnvoy || slices.Contains(a.removed, key) {
			e.t.Errorf("%s cannot be removed", key)
		}
		a.removed = append(a.removed, key)
	}
	if len(m.GetSetHeaders()) > 0 && (lines > e.maxHeaders || bytes > maxResponseHeaders) {
		e.t.Errorf("%d header lines, %d bytes: Envoy makes a 500 of the answer beyond %d and %d", lines, bytes, e.maxHeaders, maxResponseHeaders)
	}
}

// close ends the stream as Envoy does when it needs it no more. Nothing may come after the last answer.
func (e *envoy) close() {
	e.t.Helper()
	if err := e.stream.CloseSend(); err != nil {
		e.t.Error(err)
	}
	switch resp, err := e.stream.Recv(); {
	case err == nil:
		e.t.Errorf("a message after the end: %v", resp)
	case err != io.EOF:
		e.t.Errorf("the stream ends with %v", status.Convert(err))
	}
	e.cancel()
}
