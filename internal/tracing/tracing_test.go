package tracing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/verdictproxy/verdict/pkg/decision"
	"github.com/verdictproxy/verdict/test/collector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sampled = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

func incoming(traceparent string) context.Context {
	return metadata.NewIncomingContext(context.Background(), metadata.Pairs("traceparent", traceparent))
}

var uncertain = Decided{
	Decision: decision.Decision{Verdict: decision.Ambiguous, Reason: decision.ReasonGatewayStatus, Rule: 8,
		Evidence: decision.ResponseReceived, Execution: decision.ExecutionUnknown, Uncertain: true},
	CaseID: "c1", Upstream: "app", Operation: "payments", Method: "POST", Status: 503, Attempt: 2,
}

// TestEnvironment: which variables switch traces on, and that a value that is not known is refused by
// its name.
func TestEnvironment(t *testing.T) {
	for _, test := range []struct {
		set  []string
		on   bool
		says string
	}{
		{set: nil},
		{set: []string{"OTEL_SERVICE_NAME=verdict"}},
		{set: []string{"OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}},
		{set: []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_SDK_DISABLED=true"}},
		{set: []string{"OTEL_TRACES_EXPORTER=otlp"}, on: true},
		{set: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, on: true},
		{set: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, on: true},
		{set: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4317"}, says: `OTEL_EXPORTER_OTLP_ENDPOINT: "127.0.0.1:4317"`},
		{set: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=collector:4317"}, says: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "collector:4317"`},
		{set: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=unix:///run/collector"}, says: "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{set: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=unix:///run/collector", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, on: true},
		{set: []string{"OTEL_TRACES_EXPORTER=zipkin"}, says: `OTEL_TRACES_EXPORTER: "zipkin"`},
		{set: []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json"}, says: `OTEL_EXPORTER_OTLP_PROTOCOL: "http/json"`},
		{set: []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_RESOURCE_ATTRIBUTES=a"}, says: "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(strings.Join(test.set, " "), func(t *testing.T) {
			for _, s := range test.set {
				name, value, _ := strings.Cut(s, "=")
				t.Setenv(name, value)
			}
			tracer, err := New("v0", slog.New(slog.DiscardHandler))
			t.Cleanup(func() { tracer.Close(time.Second) })
			if (tracer != nil) != test.on {
				t.Errorf("traces are on: %v, want %v", tracer != nil, test.on)
			}
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one of %q", err, test.says)
			}
		})
	}
}

// TestExport: what a collector gets, by both protocols.
func TestExport(t *testing.T) {
	c := collector.Start(t)
	byHTTP := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collectorv1.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
			t.Errorf("%s, %v", r.URL, err)
		}
		_, _ = c.Export(r.Context(), &req)
	}))
	defer byHTTP.Close()
	socket := filepath.Join(t.TempDir(), "collector")
	c.ListenUnix(t, socket)
	for i, test := range []struct{ protocol, address string }{
		{"grpc", "http://" + c.Addr}, {"grpc", "unix://" + socket}, {"http/protobuf", byHTTP.URL}, {"", byHTTP.URL},
	} {
		protocol, address := test.protocol, test.address
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
		tracer, err := New("v1.2.3", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		span := tracer.Begin(incoming(sampled), "judge")
		span.Decided(uncertain)
		span.End()
		span.End()
		tracer.Close(20 * time.Second) // hands over what is left
		spans := c.Spans()
		if len(spans) != i+1 {
			t.Fatalf("%s: %d spans", protocol, len(spans)-i)
		}
		got := spans[i]
		for name, want := range map[string]string{
			"service.name": "verdict", "service.version": "v1.2.3", "deployment.environment.name": "test",
		} {
			if got.Resource[name] != want {
				t.Errorf("%s: resource: %s is %q, want %q", protocol, name, got.Resource[name], want)
			}
		}
		if got.Attributes["verdict.case_id"] != "c1" {
			t.Errorf("%s: attributes %v", protocol, got.Attributes)
		}
	}
}

// recorded runs f with a tracer that keeps its spans, and returns them.
func recorded(t *testing.T, f func(*Tracer)) tracetest.SpanStubs {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	tracer := With(sdk.NewSimpleSpanProcessor(kept))
	f(tracer)
	spans := kept.GetSpans()
	tracer.Close(time.Second)
	return spans
}

// TestParent: the span is in the caller's trace, under the caller's span; a caller that does not sample is
// obeyed; what is no trace context is none.
func TestParent(t *testing.T) {
	for traceparent, want := range map[string]struct {
		spans  int
		parent string
	}{
		sampled:                                {1, "0123456789abcdef"},
		strings.TrimSuffix(sampled, "1") + "0": {0, ""},
		"":                                     {1, "0000000000000000"},
		"nonsense":                             {1, "0000000000000000"},
		sampled + "," + sampled:                {1, "0000000000000000"},
		"ff" + sampled[2:]:                     {1, "0000000000000000"},
	} {
		spans := recorded(t, func(tracer *Tracer) {
			span := tracer.Begin(incoming(traceparent), "judge")
			if span.Recording() != (want.spans == 1) {
				t.Errorf("%q: recording %v", traceparent, span.Recording())
			}
			span.Wait(time.Second)
			span.Event("wait abandoned")
			span.Decided(uncertain)
			span.End()
		})
		if len(spans) != want.spans {
			t.Errorf("%q: %d spans, want %d", traceparent, len(spans), want.spans)
			continue
		}
		if want.spans == 1 && spans[0].Parent.SpanID().String() != want.parent {
			t.Errorf("%q: the parent is %v, want %s", traceparent, spans[0].Parent.SpanID(), want.parent)
		}
	}
}

// TestAttributes: the words of a decision, and nothing that a client could have chosen.
func TestAttributes(t *testing.T) {
	hostile := uncertain
	hostile.Method = "BREW\xff"
	hostile.Operation = strings.Repeat("o", 300)
	hostile.Upstream = "a\xffb"
	for name, test := range map[string]struct {
		decided Decided
		want    map[string]any
	}{
		"uncertain": {uncertain, map[string]any{
			"verdict.role": "judge", "verdict.verdict": "ambiguous", "verdict.reason": "gateway_status", "verdict.rule": int64(8),
			"verdict.evidence": "RESPONSE_RECEIVED", "verdict.execution": "UNKNOWN", "verdict.uncertain": true, "verdict.attempt": int64(2),
			"verdict.case_id": "c1", "verdict.upstream": "app", "verdict.operation": "payments",
			"http.request.method": "POST", "http.response.status_code": int64(503), "http.request.resend_count": int64(1)}},
		"retry": {Decided{Decision: decision.Decision{Verdict: decision.Retry, Rule: 9, Evidence: decision.NotSent, Execution: decision.NotExecuted, Wait: 1500 * time.Millisecond}, Attempt: 1, Shadow: true},
			map[string]any{"verdict.role": "judge", "verdict.verdict": "retry", "verdict.rule": int64(9), "verdict.evidence": "NOT_SENT", "verdict.execution": "NOT_EXECUTED",
				"verdict.uncertain": false, "verdict.attempt": int64(1), "verdict.wait_seconds": 1.5, "verdict.shadow": true}},
		"permanent": {Decided{Decision: decision.Decision{Verdict: decision.Denied, Reason: decision.ReasonPermanentFailure, Category: decision.NoRoute, Rule: 7, Evidence: decision.NotSent, Execution: decision.NotExecuted}},
			map[string]any{"verdict.role": "judge", "verdict.verdict": "denied", "verdict.reason": "permanent_failure", "verdict.category": "no_route", "verdict.rule": int64(7),
				"verdict.evidence": "NOT_SENT", "verdict.execution": "NOT_EXECUTED", "verdict.uncertain": false}},
		"hostile": {hostile, map[string]any{
			"verdict.role": "judge", "verdict.verdict": "ambiguous", "verdict.reason": "gateway_status", "verdict.rule": int64(8),
			"verdict.evidence": "RESPONSE_RECEIVED", "verdict.execution": "UNKNOWN", "verdict.uncertain": true, "verdict.attempt": int64(2),
			"verdict.case_id": "c1", "verdict.upstream": "a\uFFFDb", "verdict.operation": strings.Repeat("o", 256),
			"http.request.method": "_OTHER", "http.response.status_code": int64(503), "http.request.resend_count": int64(1)}},
	} {
		spans := recorded(t, func(tracer *Tracer) {
			span := tracer.Begin(context.Background(), "judge")
			span.Decided(test.decided)
			span.End()
		})
		got := map[string]any{}
		for _, kv := range spans[0].Attributes {
			got[string(kv.Key)] = kv.Value.AsInterface()
		}
		for key, want := range test.want {
			if got[key] != want {
				t.Errorf("%s: %s is %v, want %v", name, key, got[key], want)
			}
			delete(got, key)
		}
		if len(got) > 0 {
			t.Errorf("%s: also %v", name, got)
		}
	}
}

// TestOff: without a tracer nothing is allocated.
func TestOff(t *testing.T) {
	var tracer *Tracer
	ctx := incoming(sampled)
	if n := testing.AllocsPerRun(100, func() {
		span := tracer.Begin(ctx, "judge")
		span.Wait(time.Second)
		span.Event("wait abandoned")
		if span.Recording() {
			t.Error("it records")
		}
		span.Decided(uncertain)
		span.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	tracer.Close(time.Second)
}

// TestCollectorAway: a collector that is down, or accepts connections and says nothing, holds nobody up: spans
// beyond the queue are dropped, the end comes in time, and the log gets a line.
func TestCollectorAway(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, addr := range map[string]string{"silent": silent.Addr().String(), "down": closed.Addr().String()} {
		for _, protocol := range []string{"grpc", "http/protobuf"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+addr)
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
				t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1024")
				tracer, err := New("", slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				finished := make(chan struct{})
				go func() {
					defer close(finished)
					for range 5000 {
						span := tracer.Begin(incoming(sampled), "judge")
						span.Decided(uncertain)
						span.End()
					}
					tracer.Close(100 * time.Millisecond)
				}()
				select {
				case <-finished:
				case <-time.After(20 * time.Second):
					t.Fatal("it does not end")
				}
			})
		}
	}
}

// TestComplaints: of any number of errors within a minute one is logged, and of that one no more than fits.
func TestComplaints(t *testing.T) {
	var log bytes.Buffer
	c := &complaints{log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 1000 {
		c.Handle(errors.New("collector away" + strings.Repeat("\xff", 1<<20)))
	}
	if log.Len() > 4096 {
		t.Errorf("the log has %d bytes", log.Len())
	}
	if got := strings.Count(log.String(), "\n"); got != 1 {
		t.Errorf("%d lines:\n%s", got, &log)
	}
	c.last = c.last.Add(-2 * time.Minute)
	c.Handle(errors.New("collector still away"))
	if !strings.Contains(log.String(), "errors_since_the_last_line=999") {
		t.Errorf("the log does not say how many were silent:\n%s", &log)
	}
}
