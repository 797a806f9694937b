package tracing

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// Span is of one decision. The zero value records nothing. It is for one goroutine.
type Span struct{ span trace.Span }

// Decided is a decision with what is known of its request. What is empty or 0 is left out.
type Decided struct {
	Decision  decision.Decision
	CaseID    string // of an uncertain outcome
	Upstream  string
	Operation string
	Method    string
	Status    int // of the upstream's answer
	Attempt   int // from 1
	Shadow    bool
}

// Begin begins a span. Its parent is in the W3C headers of ctx's incoming gRPC metadata; one that is not
// sampled records nothing. role is who decides: judge, finalizer, plain or api.
func (t *Tracer) Begin(ctx context.Context, role string) Span {
	if t == nil {
		return Span{}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, carrier{ctx})
	_, span := t.tracer.Start(ctx, "decide", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("verdict.role", role)))
	if !span.IsRecording() {
		return Span{}
	}
	return Span{span}
}

// Recording reports whether anything that is said is kept.
func (s Span) Recording() bool { return s.span != nil }

// Event says that something has happened meanwhile. name is from a closed list.
func (s Span) Event(name string) {
	if s.span != nil {
		s.span.AddEvent(name)
	}
}

// Wait says that a wait before the next attempt begins.
func (s Span) Wait(d time.Duration) {
	if s.span != nil {
		s.span.AddEvent("wait", trace.WithAttributes(seconds(d)))
	}
}

// Decided says what was decided. The span goes on until End.
func (s Span) Decided(d Decided) {
	if s.span != nil {
		s.span.SetAttributes(d.attributes()...)
	}
}

// End ends the span; only the first call counts.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

func seconds(d time.Duration) attribute.KeyValue {
	return attribute.Float64("verdict.wait_seconds", d.Seconds())
}

func (d Decided) attributes() []attribute.KeyValue {
	a := make([]attribute.KeyValue, 0, 16)
	a = append(a,
		attribute.String("verdict.verdict", d.Decision.Verdict.String()),
		attribute.Int("verdict.rule", d.Decision.Rule),
		attribute.String("verdict.evidence", d.Decision.Evidence.String()),
		attribute.String("verdict.execution", d.Decision.Execution.String()),
		attribute.Bool("verdict.uncertain", d.Decision.Uncertain))
	if d.Decision.Reason != decision.ReasonNone {
		a = append(a, attribute.String("verdict.reason", d.Decision.Reason.String()))
	}
	if d.Decision.Reason == decision.ReasonPermanentFailure {
		a = append(a, attribute.String("verdict.category", d.Decision.Category.String()))
	}
	if d.Decision.Verdict == decision.Retry {
		a = append(a, seconds(d.Decision.Wait))
	}
	if d.Shadow {
		a = append(a, attribute.Bool("verdict.shadow", true))
	}
	if d.Attempt > 0 {
		a = append(a, attribute.Int("verdict.attempt", d.Attempt))
	}
	if d.Attempt > 1 {
		a = append(a, semconv.HTTPRequestResendCount(d.Attempt-1))
	}
	if d.Status > 0 {
		a = append(a, semconv.HTTPResponseStatusCode(d.Status))
	}
	if d.Method != "" {
		a = append(a, method(d.Method))
	}
	for _, text := range [...]struct{ name, value string }{
		{"verdict.upstream", d.Upstream}, {"verdict.operation", d.Operation}, {"verdict.case_id", d.CaseID},
	} {
		if text.value != "" {
			a = append(a, attribute.String(text.name, clean(text.value)))
		}
	}
	return a
}

// method is the request's where it is one that everybody knows: a client can choose it.
func method(name string) attribute.KeyValue {
	switch name {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY":
		return semconv.HTTPRequestMethodKey.String(name)
	}
	return semconv.HTTPRequestMethodOther
}

// maxText bounds a name in bytes.
const maxText = 256

// clean makes a name that OTLP can carry: one string that is not UTF-8 would cost the whole batch.
func clean(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD")
}

// carrier reads the metadata of an incoming call.
type carrier struct{ context.Context }

// Get is documented at propagation.TextMapCarrier, as are the others.
func (c carrier) Get(key string) string {
	return strings.Join(metadata.ValueFromIncomingContext(c.Context, key), ",")
}

func (carrier) Set(string, string) {}

func (carrier) Keys() []string { return nil }
