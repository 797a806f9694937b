// Package extproc serves Envoy's external-processing streams: the judge, the finalizer and the credential
// filter of the hop topology, and plain ext_proc for a stream that names no role.
package extproc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	mathrand "math/rand/v2"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/recent"
	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/internal/tracing"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// Server answers ext_proc streams. One stream is one answer of Envoy; nothing is remembered between
// streams but the budget.
type Server struct {
	extprocv3.UnimplementedExternalProcessorServer

	// Config returns the configuration in force; a stream reads it once.
	Config func() *config.Config
	Budget budget.Budget
	Drain  *Drain
	// Runtime says whether a retry towards an upstream may begin, beside what Drain says; nil is always.
	Runtime func(upstream string) decision.RuntimeState
	// Shadow says for which upstreams Verdict looks and does not act, beside those of Config; "" are those
	// of which Envoy does not say the name. nil is none.
	Shadow func(upstream string) bool
	// Credentials returns what issues the credential of an upstream's attempts, nil where nothing does;
	// nil is nothing for all.
	Credentials func(upstream string) CredentialSource
	// Ledger is where uncertain outcomes are entered; nil is nowhere.
	Ledger ledger.Ledger
	// Recent is what remembers decisions; nil is nothing.
	Recent  *recent.Decisions
	Metrics *telemetry.Metrics
	// Tracer makes a span of each decision; nil is none.
	Tracer *tracing.Tracer
	Log    *slog.Logger
	// Random returns numbers in [0,1) that place waits inside their jitter; nil is math/rand.
	Random func() float64
}

// Process serves one stream until Envoy ends it. A role that is not known, a limit that is no number
// or a message of no known kind is InvalidArgument.
func (s *Server) Process(stream grpc.BidiStreamingServer[extprocv3.ProcessingRequest, extprocv3.ProcessingResponse]) error {
	limits, err := parseLimits(stream.Context())
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	call := &call{server: s, stream: stream, limits: limits, config: s.Config()}
	role, err := single(stream.Context(), evidence.MetadataRole)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	call.deciding.role = cmp.Or(role, "plain")
	defer func() { call.deciding.span.End() }() // where no decision was said
	var handler handler
	switch role {
	case "judge":
		j := &judge{call: call}
		defer j.end()
		handler = j
	case "finalizer":
		handler = &finalizer{call: call}
	case "credential":
		setter := &credentialSetter{call: call}
		return setter.end(call.serve(setter))
	case "":
		handler = &plain{call: call}
	default:
		return status.Errorf(codes.InvalidArgument, "stream metadata %s: %q is neither judge, finalizer nor credential", evidence.MetadataRole, role)
	}
	return call.serve(handler)
}

// handler answers one message; a nil answer sends nothing.
type handler interface {
	handle(context.Context, *extprocv3.ProcessingRequest) (*extprocv3.ProcessingResponse, error)
}

// call is one stream with what it was opened with.
type call struct {
	server   *Server
	stream   grpc.BidiStreamingServer[extprocv3.ProcessingRequest, extprocv3.ProcessingResponse]
	limits   limits
	config   *config.Config
	bodies   bodyModes
	deciding deciding
	// observing: Envoy does not wait for answers on this stream.
	observing bool
}

// serve is the stream's loop. The end of a stream and its cancellation are normal: Envoy ends every
// stream so, and a client that left does too.
func (c *call) serve(h handler) error {
	ctx := c.stream.Context()
	for {
		req, err := c.stream.Recv()
		if err != nil {
			return streamEnd(err)
		}
		c.observing = req.GetObservabilityMode()
		c.bodies.learn(req.GetProtocolConfig())
		if req.GetRequest() == nil && (req.GetFlowControlInit() != nil || req.GetClientWindowUpdate() != nil) {
			continue // says something of the transport, and asks nothing
		}
		resp, err := h.handle(ctx, req)
		if err == nil && resp != nil && !c.observing {
			err = c.stream.Send(resp)
		}
		if err != nil {
			return streamEnd(err)
		}
	}
}

// streamEnd returns nil for the ends that are normal.
func streamEnd(err error) error {
	if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}

func (s *Server) random() float64 {
	if s.Random != nil {
		return s.Random()
	}
	return mathrand.Float64()
}

// key returns what Envoy says of the idempotency key's lines, joined by commas, or "".
func (c *call) key(req *extprocv3.ProcessingRequest) string {
	return evidence.KeyAttribute(req.GetAttributes(), c.limits.keyHeader)
}
