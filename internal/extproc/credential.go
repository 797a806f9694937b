package extproc

import (
	"context"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/internal/evidence"
)

// defaultCredentialWait is how long a stream waits for a credential that does not say how long Envoy
// waits for it.
const defaultCredentialWait = 500 * time.Millisecond

// credentialSetter sets the current credential on an attempt on its way to the upstream. It fails closed:
// where there is none the attempt is not sent.
type credentialSetter struct {
	*call
	answered bool
}

func (c *credentialSetter) handle(ctx context.Context, req *extprocv3.ProcessingRequest) (*extprocv3.ProcessingResponse, error) {
	m, ok := req.GetRequest().(*extprocv3.ProcessingRequest_RequestHeaders)
	if !ok {
		return c.bodies.passOn(req)
	}
	c.answered = true
	upstream := evidence.ClusterAttribute(req.GetAttributes())
	first := evidence.FirstAttempt(evidence.NewHeaders(m.RequestHeaders.GetHeaders()))
	if first && !c.config.Upstream(upstream).FirstAttempts() {
		return c.bodies.passOn(req) // it has one from elsewhere, or is to have none
	}
	source := c.server.credential(upstream)
	if source == nil {
		c.server.uncredentialed(upstream, "no credential source is configured")
		return noCredential(), nil
	}
	wait := c.limits.maxWait
	if wait <= 0 {
		wait = defaultCredentialWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	authorization, err := source.Current(ctx)
	if err != nil {
		c.server.uncredentialed(upstream, err.Error())
		return noCredential(), nil
	}
	return setCredential(authorization, source.Mark(authorization)), nil
}

// end is the stream's end. Envoy (1.40, failure_mode_allow: false) sends an attempt whose stream has ended
// in order without an answer, and with it what it carried before.
func (c *credentialSetter) end(err error) error {
	if err == nil && (!c.answered || c.stream.Context().Err() != nil) {
		return status.Error(codes.Unavailable, "the stream ends before the credential is there")
	}
	return err
}

func setCredential(authorization, mark string) *extprocv3.ProcessingResponse {
	set := []*corev3.HeaderValueOption{newLine(evidence.Authorization, authorization)}
	if mark != "" {
		set = append(set, newLine(evidence.Mark, mark))
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{
			HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: set},
		}},
	}}
}

// noCredential ends the attempt before it is sent. Its details tell the judge which filter that was.
func noCredential() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extprocv3.ImmediateResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
			Details: evidence.DetailsNoCredential,
		},
	}}
}

// uncredentialed counts and logs an attempt that is not sent; why holds no secret. The source itself warns
// when it begins to fail.
func (s *Server) uncredentialed(upstream, why string) {
	s.Metrics.Uncredentialed.Inc()
	s.Log.LogAttrs(context.Background(), slog.LevelDebug, "an attempt is not sent: it has no credential",
		slog.String("upstream", upstream), slog.String("cause", why))
}
