// Package collector is an OpenTelemetry collector for tests: it receives spans by OTLP over gRPC and
// keeps them.
package collector

import (
	"context"
	"maps"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector is a running one.
type Collector struct {
	Addr string // 127.0.0.1:port

	collectorv1.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []Span
}

// Span is one that was received, with its attributes and those of its resource as text.
type Span struct {
	*tracev1.Span
	Attributes, Resource map[string]string
}

// Start starts a collector that ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Addr: l.Addr().String()}
	c.serve(t, l)
	return c
}

// ListenUnix lets it listen on a Unix socket too.
func (c *Collector) ListenUnix(t testing.TB, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.serve(t, l)
}

func (c *Collector) serve(t testing.TB, l net.Listener) {
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("collector: %v", err)
		}
	})
}

// Export is documented at collectorv1.TraceServiceServer.
func (c *Collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		resource := attributes(r.GetResource().GetAttributes())
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{Span: s, Attributes: attributes(s.GetAttributes()), Resource: maps.Clone(resource)})
			}
		}
	}
	return new(collectorv1.ExportTraceServiceResponse), nil
}

// Spans are those received until now.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Trace are the spans of a trace that were received until now.
func (c *Collector) Trace(id []byte) []Span {
	var found []Span
	for _, s := range c.Spans() {
		if string(s.GetTraceId()) == string(id) {
			found = append(found, s)
		}
	}
	return found
}

// Wait waits until what was received is enough.
func (c *Collector) Wait(t testing.TB, what string, enough func([]Span) bool) []Span {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		spans := c.Spans()
		if enough(spans) {
			return spans
		}
		if time.Now().After(end) {
			for _, s := range spans {
				t.Logf("%x %x of %x: %s of %s %v", s.GetTraceId(), s.GetSpanId(), s.GetParentSpanId(), s.GetName(), s.Resource["service.name"], s.Attributes)
			}
			t.Fatalf("collector: %s: not among the %d spans received", what, len(spans))
		}
	}
}

func attributes(list []*commonv1.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			m[kv.GetKey()] = v.StringValue
		case *commonv1.AnyValue_BoolValue:
			m[kv.GetKey()] = strconv.FormatBool(v.BoolValue)
		case *commonv1.AnyValue_IntValue:
			m[kv.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		case *commonv1.AnyValue_DoubleValue:
			m[kv.GetKey()] = strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
		default:
			m[kv.GetKey()] = kv.GetValue().String()
		}
	}
	return m
}
