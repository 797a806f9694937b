// Package tracing makes an OpenTelemetry span of each decision, under the caller's: Envoy sends its trace
// context in the metadata of each ext_proc stream (since 1.31, where the HTTP connection manager traces),
// a client of the API in that of its call.
//
// The standard OTEL_* environment variables configure it. A span says how an attempt ended and what was
// decided, in words from closed lists and names that operators gave; never a header, path, key or body.
// It is handed over through a bounded queue that drops what does not fit: a collector that is away, slow
// or silent delays nothing.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

// Tracer makes spans. A nil one makes none, at the cost of a comparison.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdk.TracerProvider
	exporter sdk.SpanExporter
}

// New reads the environment. Spans are exported by OTLP where OTEL_TRACES_EXPORTER is otlp, or where it is
// not set and OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is; else, and where
// OTEL_SDK_DISABLED is true, the Tracer is nil. OTEL_EXPORTER_OTLP_PROTOCOL is grpc or http/protobuf, the
// default. Endpoint, TLS, headers, timeout, sampler, batches, limits and resource are read as the
// OpenTelemetry specification says; contexts are W3C's, whatever OTEL_PROPAGATORS says. An error is a value
// that is not known; a collector that is not there is none: that is logged, at most once a minute.
func New(version string, log *slog.Logger) (*Tracer, error) {
	on, err := wanted()
	if !on || err != nil {
		return nil, err
	}
	if err := checkEndpoints(); err != nil {
		return nil, err
	}
	exporter, err := newExporter()
	if err != nil {
		return nil, fmt.Errorf("OTLP exporter: %w", err)
	}
	about, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(semconv.ServiceName("verdict"), semconv.ServiceVersion(version)),
		resource.WithFromEnv()) // the last one counts
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(&complaints{log: log})
	t := With(sdk.NewBatchSpanProcessor(exporter), sdk.WithResource(about))
	t.exporter = exporter
	return t, nil
}

// With makes a tracer whose spans go to p.
func With(p sdk.SpanProcessor, o ...sdk.TracerProviderOption) *Tracer {
	provider := sdk.NewTracerProvider(append(o, sdk.WithSpanProcessor(p))...)
	return &Tracer{tracer: provider.Tracer("github.com/verdictproxy/verdict"), provider: provider}
}

func wanted() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "":
		return endpoint() != "", nil
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is neither otlp nor none", exporter)
	}
}

func endpoint() string { return ofTraces("ENDPOINT") }

// checkEndpoints refuses what the SDK would overlook, to export to its default instead.
func checkEndpoints() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if value := os.Getenv(name); value != "" && !isEndpoint(value) {
			return fmt.Errorf("%s: %q is not http://HOST:PORT or https://HOST:PORT, nor, for grpc, unix:///PATH", name, value)
		}
	}
	return nil
}

func isEndpoint(value string) bool {
	u, err := url.Parse(value)
	switch {
	case err != nil:
		return false
	case u.Scheme == "unix":
		return u.Host == "" && u.Path != "" && ofTraces("PROTOCOL") == "grpc"
	}
	return (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// ofTraces reads OTEL_EXPORTER_OTLP_TRACES_name, else OTEL_EXPORTER_OTLP_name.
func ofTraces(name string) string {
	if v := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
		return v
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
}

func newExporter() (*otlptrace.Exporter, error) {
	switch protocol := ofTraces("PROTOCOL"); protocol {
	case "grpc":
		return otlptracegrpc.New(context.Background())
	case "", "http/protobuf":
		return otlptracehttp.New(context.Background())
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is neither grpc nor http/protobuf", protocol)
	}
}

// Close hands over what is left, for the given time (above 0) at most, and ends.
func (t *Tracer) Close(limit time.Duration) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if t.provider.Shutdown(ctx) == nil || t.exporter == nil {
		return
	}
	// The batch that is under way would go on for as long as its own timeout.
	expired, cancelNow := context.WithCancel(context.Background())
	cancelNow()
	_ = t.exporter.Shutdown(expired)
}

// maxComplaint bounds in bytes what is logged of an error: a collector may have written it.
const maxComplaint = 500

// complaints are the SDK's errors, of which one a minute is logged.
type complaints struct {
	log *slog.Logger

	mu     sync.Mutex
	last   time.Time
	silent int
}

// Handle is documented at otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() && time.Since(c.last) < time.Minute {
		c.silent++
		return
	}
	text := err.Error()
	c.log.Warn("traces are incomplete", "error", strings.ToValidUTF8(text[:min(len(text), maxComplaint)], "\uFFFD"), "errors_since_the_last_line", c.silent)
	c.last, c.silent = time.Now(), 0
}
