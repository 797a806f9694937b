package app

import (
	"context"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/decisionapi"
	"github.com/verdictproxy/verdict/internal/tracing"
)

// lastSpans is how long the end of the program may take to hand the last spans over.
const lastSpans = 2 * time.Second

// openTracer makes what the OTEL_* variables ask for, nil where they ask for nothing.
func (s *service) openTracer() (*tracing.Tracer, error) {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	t, err := tracing.New(version, s.log)
	s.onClose(func() { t.Close(lastSpans) })
	return t, err
}

type spanKey struct{}

// traced makes a span of each call of Decide.
func (a *api) traced() []grpc.ServerOption {
	if a.tracer == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if info.FullMethod != retryv1.DecisionService_Decide_FullMethodName {
			return handle(ctx, req)
		}
		span := a.tracer.Begin(ctx, "api")
		defer span.End()
		return handle(context.WithValue(ctx, spanKey{}, span), req)
	})}
}

// describe tells the span of the call what was decided.
func (a *api) describe(ctx context.Context, d decisionapi.Decided) {
	if a.tracer == nil {
		return
	}
	span, _ := ctx.Value(spanKey{}).(tracing.Span)
	span.Decided(tracing.Decided{
		Decision: d.Decision, CaseID: d.CaseID, Upstream: d.Upstream, Operation: d.Operation, Method: d.Method, Attempt: d.Attempt,
	})
}
