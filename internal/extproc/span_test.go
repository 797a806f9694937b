package extproc

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/internal/tracing"
)

// TestSpans: each answer that is shown gets one span, which ends whatever becomes of it.
func TestSpans(t *testing.T) {
	refused := showHeaders([]string{"details=upstream_reset_before_response_started{overflow}", "sent=0"})
	long := showHeaders([]string{"details=upstream_reset_before_response_started{overflow}", "sent=0", "attempt=2"})
	withBody := showHeaders([]string{"method=GET"})
	plain := make([]string, 0, 12)
	for _, key := range []string{evidence.MetadataRole, evidence.MetadataReplayLimit, evidence.MetadataRetries, evidence.MetadataMaxWait, evidence.MetadataMaxHeaders, evidence.MetadataKeyHeader} {
		plain = append(plain, key, "")
	}
	for _, test := range []struct {
		name    string
		replace []string // of the metadata
		broken  int
		leaves  time.Duration // when the client does; 0: never
		in      []*extprocv3.ProcessingRequest
		want    []string // of each span: role, verdict, reason, events
	}{
		{"denied", nil, 0, 0, []*extprocv3.ProcessingRequest{showHeaders([]string{"status=404"})}, []string{"judge denied status_not_retryable []"}},
		{"ambiguous", nil, 0, 0, []*extprocv3.ProcessingRequest{showHeaders(nil)}, []string{"judge ambiguous gateway_status []"}},
		{"retried", nil, 0, 0, []*extprocv3.ProcessingRequest{refused}, []string{"judge retry <nil> [wait]"}},
		{"the client leaves", nil, 0, time.Millisecond, []*extprocv3.ProcessingRequest{refused}, []string{"judge retry <nil> [wait wait abandoned]"}},
		{"the override cannot be sent", nil, 1, 0, []*extprocv3.ProcessingRequest{refused}, []string{"judge <nil> <nil> []"}},
		{"the retry cannot be sent", nil, 2, 0, []*extprocv3.ProcessingRequest{refused}, []string{"judge retry <nil> [wait wait abandoned]"}},
		{"the body comes", nil, 0, 0, []*extprocv3.ProcessingRequest{withBody, showBody([]string{"end"})}, []string{"judge retry <nil> [error body asked for wait]"}},
		{"the body is too large", nil, 0, 0, []*extprocv3.ProcessingRequest{withBody, showBody(nil)}, []string{"judge denied error_body_too_large [error body asked for]"}},
		{"the body never comes", nil, 0, 0, []*extprocv3.ProcessingRequest{withBody}, []string{"judge <nil> <nil> [error body asked for]"}},
		{"two answers", nil, 0, 0, []*extprocv3.ProcessingRequest{withBody, showHeaders([]string{"status=404"})}, []string{"judge <nil> <nil> [error body asked for]", "judge denied status_not_retryable []"}},
		{"no room", []string{evidence.MetadataMaxHeaders, "5"}, 0, 0, []*extprocv3.ProcessingRequest{showHeaders([]string{"status=404"})}, []string{"judge <nil> <nil> [left to the finalizer]"}},
		{"finalizer", []string{evidence.MetadataRole, "finalizer"}, 0, 0, []*extprocv3.ProcessingRequest{long}, []string{"finalizer ambiguous no_evidence []"}},
		{"plain", plain, 0, 0, []*extprocv3.ProcessingRequest{showHeaders([]string{"facts=none"})}, []string{"plain denied max_attempts []"}},
		{"nothing is judged", plain, 0, 0, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, "", func(t *testing.T, l *lab) {
				spans := l.trace(t)
				ctx, cancel := context.WithCancel(metadata.NewIncomingContext(t.Context(), judgeMetadata(test.replace...)))
				defer cancel()
				if test.leaves > 0 {
					time.AfterFunc(test.leaves, cancel)
				}
				_ = l.Process(&memoryStream{ctx: ctx, in: test.in, broken: test.broken})
				var got []string
				for _, s := range spans() {
					var events []string
					for _, e := range s.Events {
						events = append(events, e.Name)
					}
					got = append(got, fmt.Sprint(attribute(s, "verdict.role"), " ", attribute(s, "verdict.verdict"), " ", attribute(s, "verdict.reason"), " ", events))
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("spans %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestSpanCoversTheWait, and the time of a decision, which is counted, does not.
func TestSpanCoversTheWait(t *testing.T) {
	inLab(t, "defaults: {backoff: {base: 2s, max: 2s}}", func(t *testing.T, l *lab) {
		spans := l.trace(t)
		if _, err := l.process(judgeMetadata(), 0, showHeaders([]string{"method=GET", "end"})); err != nil {
			t.Fatal(err)
		}
		s := spans()[0]
		if took := s.EndTime.Sub(s.StartTime); took != time.Second {
			t.Errorf("the span took %v, want 1s", took)
		}
		if wait := attribute(s, "verdict.wait_seconds"); wait != 1.0 {
			t.Errorf("the wait is %v", wait)
		}
		families, err := l.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := false
		for _, f := range families {
			if f.GetName() == "verdict_decision_seconds" {
				h := f.GetMetric()[0].GetHistogram()
				counted = h.GetSampleCount() == 1 && h.GetSampleSum() == 0 // in the bubble's time
			}
		}
		if !counted {
			t.Error("the decision is not counted as one that took no time")
		}
	})
}

// TestSpanInShadow: a decision that nobody acts on says so.
func TestSpanInShadow(t *testing.T) {
	inLab(t, "", func(t *testing.T, l *lab) {
		l.Shadow = func(string) bool { return true }
		spans := l.trace(t)
		if _, err := l.process(judgeMetadata(), 0, showHeaders(nil)); err != nil {
			t.Fatal(err)
		}
		if got := attribute(spans()[0], "verdict.shadow"); got != true {
			t.Errorf("verdict.shadow is %v", got)
		}
	})
}

// trace lets the lab make spans, and returns a function that returns those that have ended.
func (l *lab) trace(t *testing.T) func() tracetest.SpanStubs {
	kept := tracetest.NewInMemoryExporter()
	l.Tracer = tracing.With(sdk.NewSimpleSpanProcessor(kept))
	return kept.GetSpans
}

func attribute(s tracetest.SpanStub, name string) any {
	for _, kv := range s.Attributes {
		if string(kv.Key) == name {
			return kv.Value.AsInterface()
		}
	}
	return nil
}
