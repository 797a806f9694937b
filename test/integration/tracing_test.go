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
		chain := trace.wait(t, c)
		wantEnvoys(t, chain, "ExternalProcessor", "app", "attempts")
		d := chain[0]
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
		chain := trace.wait(t, c)
		d := chain[0]
		if got := chain[2].Attributes["http.url"]; !strings.HasSuffix(got, "?se-cret") {
			t.Errorf("Envoy's span says http.url %q; envoy/tracing.yaml warns of it", got)
		}
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
		chain := trace.wait(t, c)
		wantEnvoys(t, chain, "ExternalProcessor", "attempts")
		wantAttributes(t, chain[0], map[string]string{"verdict.role": "finalizer", "verdict.verdict": "ambiguous", "verdict.reason": "no_evidence"})
	})
	t.Run("not sampled", func(t *testing.T) {
		t.Parallel()
		quiet, loud := newTrace(4), newTrace(5)
		for _, header := range []string{quiet.header("00"), loud.header("01")} {
			s.Do(stack.Request{Method: "POST", Fault: "reset", Header: []string{header}})
		}
		loud.wait(t, c)
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
		chain := trace.wait(t, c)
		wantEnvoys(t, chain)
		d := chain[0]
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
	waitFor(t, "the log says so", func() bool { return strings.Contains(s.ServiceLog(0), "traces are incomplete") })
	s.TerminateService(0)
	if code := s.WaitServiceExit(0, 20*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(s.ServiceLog(0), "traces are incomplete"); n > 3 { // one a minute
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

// wait waits for the trace's one decision and all that it is under, up to the client's span, and returns
// them in this order.
func (tr trace) wait(t *testing.T, c *collector.Collector) (chain []collector.Span) {
	t.Helper()
	c.Wait(t, "a decision, and all that it is under, in the trace "+tr.trace, func([]collector.Span) bool {
		spans := c.Trace(tr.id())
		at := slices.IndexFunc(spans, func(s collector.Span) bool { return s.Resource["service.name"] == "verdict" })
		for chain = nil; at >= 0; {
			chain = append(chain, spans[at])
			parent := spans[at].GetParentSpanId()
			if hex.EncodeToString(parent) == tr.span {
				return true
			}
			at = slices.IndexFunc(spans, func(s collector.Span) bool { return string(s.GetSpanId()) == string(parent) })
		}
		return false
	})
	return chain
}

// wantEnvoys checks whose spans a decision is under, by a part of the name or by the cluster that was asked.
func wantEnvoys(t *testing.T, chain []collector.Span, want ...string) {
	t.Helper()
	for i, s := range chain[1:] {
		what := s.GetName() + " " + s.Attributes["upstream_cluster"]
		if i >= len(want) || !strings.Contains(what, want[i]) || s.Resource["service.name"] != "envoy" {
			t.Errorf("the %d. above the decision is %q of %s, want %q", i+1, what, s.Resource["service.name"], want)
		}
	}
	if len(chain)-1 != len(want) {
		t.Errorf("%d are above the decision, want %q", len(chain)-1, want)
	}
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
