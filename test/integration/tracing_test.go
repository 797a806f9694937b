package integration

import (
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/test/collector"
	"github.com/verdictproxy/verdict/test/stack"
)

// traced adds envoy/tracing.yaml to hop.yaml, with the collector at addr.
func traced(t *testing.T, addr string) stack.Patch {
	t.Helper()
	hop, err := stack.HopFile()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(hop), "tracing.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var parts map[string]any
	if err := yaml.Unmarshal(text, &parts); err != nil {
		t.Fatal(err)
	}
	part := func(name string) string {
		text, err := yaml.Marshal(parts[name])
		if err != nil || parts[name] == nil {
			t.Fatalf("envoy/tracing.yaml has no %s: %v", name, err)
		}
		return string(text)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return stack.NewPatch("envoy/tracing.yaml",
		stack.Set(stack.HCM("outer")+"/tracing", part("tracing")),
		stack.Set(stack.HCM("attempts")+"/tracing", part("tracing")),
		stack.Append("static_resources/clusters", part("cluster")),
		stack.Set(stack.Cluster("collector")+"/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value", port))
}

// tracesTo lets the service export soon after a span has ended.
func tracesTo(addr string) []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + addr, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_BSP_SCHEDULE_DELAY=50"}
}

// Each decision's span is in the request's trace, under Envoy's span of the question, which is under that
// of the attempt, which is under that of the request.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	s := startTrap(t, stack.Options{
		ExtprocEnv: tracesTo(c.Addr),
		Patches: []stack.Patch{traced(t, c.Addr), stack.NewPatch("a deadline of 0.3 s",
			outerHost("deadline", `{timeout: 0.3s}`), upstreamLike("deadline", "", "")),
			stack.NewPatch("spans of Envoy at once", stack.Set("layered_runtime",
				`{layers: [{name: static, static_layer: {tracing.opentelemetry.flush_interval_ms: 50}}]}`))},
	})

	if log := validate(t, stack.OldestEnvoy, s.ConfigFile); len(log) > 0 {
		t.Errorf("envoy %s complains:\n%s", stack.OldestEnvoy, strings.Join(log, "\n"))
	}

	t.Run("retried", func(t *testing.T) {
		t.Parallel()
		trace := newTrace(1)
		s.Do(stack.Request{Fault: "503, ok", Header: []string{trace.header("01")}})
		spans := trace.wait(t, c, "request, two attempts, the question and the decision", 5)
		d := trace.decisions(spans)[0]
		trace.wantUnderEnvoys(t, spans, d)
		wantAttributes(t, d, map[string]string{
			"verdict.role": "judge", "verdict.verdict": "retry", "verdict.evidence": "RESPONSE_RECEIVED", "verdict.execution": "UNKNOWN",
			"verdict.attempt": "1", "verdict.upstream": "app", "http.request.method": "GET", "http.response.status_code": "503"})
		var events []string
		for _, e := range d.GetEvents() {
			events = append(events, e.GetName())
		}
		if !slices.Equal(events, []string{"error body asked for", "wait"}) {
			t.Errorf("events %q", events)
		}
		wait, err := strconv.ParseFloat(d.Attributes["verdict.wait_seconds"], 64)
		if took := time.Duration(d.GetEndTimeUnixNano() - d.GetStartTimeUnixNano()); err != nil || took.Seconds() < wait {
			t.Errorf("the span took %v and does not cover the wait, %s s", took, d.Attributes["verdict.wait_seconds"])
		}
	})
	t.Run("uncertain", func(t *testing.T) {
		t.Parallel()
		trace := newTrace(2)
		a := s.Do(stack.Request{Method: "POST", Target: "/payments/se-cret?se-cret", Fault: "reset", Body: "se-cret", Header: []string{
			trace.header("01"), "idempotency-key: se-cret", "authorization: se-cret", "x-request-id: se-cret", "baggage: user=se-cret", "tracestate: v=se-cret"}})
		d := trace.decisions(trace.wait(t, c, "request, attempt, question, decision", 4))[0]
		wantAttributes(t, d, map[string]string{
			"verdict.role": "judge", "verdict.verdict": "ambiguous", "verdict.reason": "sent_no_response", "verdict.rule": "8",
			"verdict.evidence": "SENT_NO_RESPONSE", "verdict.uncertain": "true", "verdict.operation": "",
			"verdict.case_id": a.Report().AmbiguityID, "http.response.status_code": "", "service.name": "verdict"})
		d.TraceState = "" // the caller's, handed on as W3C demands
		if strings.Contains(d.String(), "se-cret") {
			t.Errorf("what the client sent is in the span: %v", d)
		}
	})
	t.Run("finalizer", func(t *testing.T) {
		t.Parallel()
		trace := newTrace(3)
		s.Do(stack.Request{Method: "POST", Host: "deadline.example", Fault: "stuck", Body: "x", Header: []string{trace.header("01")}})
		spans := trace.wait(t, c, "request, attempt, question, decision", 4)
		d := trace.decisions(spans)[0]
		wantAttributes(t, d, map[string]string{"verdict.role": "finalizer", "verdict.verdict": "ambiguous", "verdict.reason": "no_evidence"})
		question := find(t, spans, d.GetParentSpanId())
		if request := find(t, spans, question.GetParentSpanId()); hex.EncodeToString(request.GetParentSpanId()) != trace.span {
			t.Errorf("the finalizer's question is not under the request: %v", request.Span)
		}
	})
	t.Run("not sampled", func(t *testing.T) {
		t.Parallel()
		quiet, loud := newTrace(4), newTrace(5)
		for _, header := range []string{quiet.header("00"), loud.header("01")} {
			s.Do(stack.Request{Method: "POST", Fault: "reset", Header: []string{header}})
		}
		loud.wait(t, c, "request, attempt, question, decision", 4)
		if spans := c.Trace(quiet.id()); len(spans) != 0 {
			t.Errorf("%d spans of a request whose client does not sample", len(spans))
		}
	})
	t.Run("API", func(t *testing.T) {
		t.Parallel()
		conn, err := grpc.NewClient(strings.TrimPrefix(s.ServiceAdminURL(0), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		trace := newTrace(6)
		name, value, _ := strings.Cut(trace.header("01"), ": ")
		ctx := metadata.AppendToOutgoingContext(t.Context(), name, value)
		resp, err := retryv1.NewDecisionServiceClient(conn).Decide(ctx, &retryv1.DecideRequest{Facts: &retryv1.Facts{
			Upstream: "app", Call: &retryv1.Call{Method: "POST", Path: "/se-cret"}, Attempt: 1,
			Body: &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_NONE}, Deadline: &retryv1.Facts_NoDeadline{},
		}})
		if err != nil {
			t.Fatal(err)
		}
		d := trace.decisions(trace.wait(t, c, "the decision", 1))[0]
		if hex.EncodeToString(d.GetParentSpanId()) != trace.span {
			t.Errorf("the parent is %x, want the caller's %s", d.GetParentSpanId(), trace.span)
		}
		wantAttributes(t, d, map[string]string{"verdict.role": "api", "verdict.verdict": "ambiguous", "verdict.case_id": resp.GetCaseId(), "http.request.method": "POST"})
		if strings.Contains(d.String(), "se-cret") {
			t.Errorf("the path is in the span: %v", d)
		}
	})
}

// A collector that takes connections and says nothing changes no answer, fills no log, and does not hold
// the end of the service up.
func TestTracesNowhere(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := startTrap(t, stack.Options{
		ExtprocEnv: append(tracesTo(silent.Addr().String()), "OTEL_BSP_EXPORT_TIMEOUT=100", "OTEL_BSP_MAX_QUEUE_SIZE=8"),
		Patches:    []stack.Patch{traced(t, silent.Addr().String())},
	})
	for range 30 {
		a := s.Do(getting("503, ok"))
		wantHits(t, s, a, 2, 2)
	}
	a := s.Do(posting("reset"))
	wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
	waitFor(t, "the log says that traces cannot be exported", func() bool { return strings.Contains(s.ServiceLog(0), "traces cannot be exported") })
	s.TerminateService(0)
	if code := s.WaitServiceExit(0, 20*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(s.ServiceLog(0), "traces cannot be exported"); n > 3 { // one a minute
		t.Errorf("%d lines in the log", n)
	}
}

// trace is a request's, which its client has begun.
type trace struct{ trace, span string }

func newTrace(n byte) trace {
	return trace{strings.Repeat("0", 30) + hex.EncodeToString([]byte{n}), "00000000000000c1"}
}

func (tr trace) header(flags string) string {
	return "traceparent: 00-" + tr.trace + "-" + tr.span + "-" + flags
}

func (tr trace) id() []byte { id, _ := hex.DecodeString(tr.trace); return id }

// wait waits for the n spans of the trace.
func (tr trace) wait(t *testing.T, c *collector.Collector, what string, n int) []collector.Span {
	t.Helper()
	c.Wait(t, what, func([]collector.Span) bool { return len(c.Trace(tr.id())) >= n })
	spans := c.Trace(tr.id())
	if len(spans) != n || len(tr.decisions(spans)) != 1 {
		t.Fatalf("%d spans, %d of them decisions, want %d and 1", len(spans), len(tr.decisions(spans)), n)
	}
	return spans
}

func (trace) decisions(spans []collector.Span) []collector.Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s collector.Span) bool { return s.Resource["service.name"] != "verdict" })
}

// wantUnderEnvoys checks the way up from a judge's decision to the client's span.
func (tr trace) wantUnderEnvoys(t *testing.T, spans []collector.Span, d collector.Span) {
	t.Helper()
	question := find(t, spans, d.GetParentSpanId())
	attempt := find(t, spans, question.GetParentSpanId())
	request := find(t, spans, attempt.GetParentSpanId())
	if !strings.Contains(question.GetName(), "ExternalProcessor") || attempt.Attributes["upstream_cluster"] != "app" || request.Attributes["upstream_cluster"] != "attempts" {
		t.Errorf("the decision is under %q, under one with the cluster %q, under one with %q", question.GetName(), attempt.Attributes["upstream_cluster"], request.Attributes["upstream_cluster"])
	}
	if got := hex.EncodeToString(request.GetParentSpanId()); got != tr.span {
		t.Errorf("the request is under %s, want the client's %s", got, tr.span)
	}
}

// find is one of Envoy's spans.
func find(t *testing.T, spans []collector.Span, id []byte) collector.Span {
	t.Helper()
	for _, s := range spans {
		if string(s.GetSpanId()) == string(id) && s.Resource["service.name"] == "envoy" {
			return s
		}
	}
	t.Fatalf("no span of Envoy has the id %x", id)
	return collector.Span{}
}

// wantAttributes checks some of the attributes, "" being none.
func wantAttributes(t *testing.T, s collector.Span, want map[string]string) {
	t.Helper()
	for name, value := range want {
		got, ok := s.Attributes[name]
		if name == "service.name" {
			got, ok = s.Resource[name]
		}
		if got != value || ok != (value != "") {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}
