package extproc

import (
	extprocfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bodyModes is how Envoy sends bodies on this stream; it says so in its first message.
type bodyModes struct {
	request, response extprocfilterv3.ProcessingMode_BodySendMode
}

func (b *bodyModes) learn(c *extprocv3.ProtocolConfiguration) {
	if c != nil {
		b.request, b.response = c.GetRequestBodyMode(), c.GetResponseBodyMode()
	}
}

// passOn gives each kind of message the answer that changes nothing.
func (b *bodyModes) passOn(req *extprocv3.ProcessingRequest) (*extprocv3.ProcessingResponse, error) {
	resp := &extprocv3.ProcessingResponse{}
	switch m := req.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		resp.Response = &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{}}
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		resp.Response = &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}}
	case *extprocv3.ProcessingRequest_RequestBody:
		resp.Response = &extprocv3.ProcessingResponse_RequestBody{RequestBody: sameBody(b.request, m.RequestBody)}
	case *extprocv3.ProcessingRequest_ResponseBody:
		resp.Response = &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: sameBody(b.response, m.ResponseBody)}
	case *extprocv3.ProcessingRequest_RequestTrailers:
		resp.Response = &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}}
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		resp.Response = &extprocv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocv3.TrailersResponse{}}
	default:
		return nil, status.Errorf(codes.InvalidArgument, "ProcessingRequest.request: %T is not a kind of message that this server knows", m)
	}
	return resp, nil
}

// sameBody sends the chunk back in the modes in which Envoy has given it away; in the others an empty
// answer keeps it.
func sameBody(mode extprocfilterv3.ProcessingMode_BodySendMode, b *extprocv3.HttpBody) *extprocv3.BodyResponse {
	switch mode {
	case extprocfilterv3.ProcessingMode_FULL_DUPLEX_STREAMED, extprocfilterv3.ProcessingMode_GRPC:
		return &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{
			Mutation: &extprocv3.BodyMutation_StreamedResponse{StreamedResponse: &extprocv3.StreamedBodyResponse{
				Body:                      b.GetBody(),
				EndOfStream:               b.GetEndOfStream(),
				EndOfStreamWithoutMessage: b.GetEndOfStreamWithoutMessage(),
				GrpcMessageCompressed:     b.GetGrpcMessageCompressed(),
			}},
		}}}
	}
	return &extprocv3.BodyResponse{}
}
