package extproc

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/verdictproxy/verdict/internal/evidence"
)

var resetArgs = []string{"details=upstream_reset_before_response_started{connection_termination}"}

// TestProblem: the body says what a caller needs to reconcile, and the same case as header and log.
func TestProblem(t *testing.T) {
	inLab(t, `
upstreams:
- clusters: [app]
  operations:
  - {pattern: "POST /orders/{id}", name: order, idempotency: idempotent_with_key}
`, func(t *testing.T, l *lab) {
		e := l.open(t, judgeMetadata())
		a := e.send(showHeaders(append(resetArgs, "attempt=3", "path=/orders/7?x=<1>", "key=k1", "request-id=r1")))
		e.close()
		var got map[string]any
		if err := json.Unmarshal([]byte(a.problem), &got); err != nil {
			t.Fatalf("%v in %q", err, a.problem)
		}
		want := map[string]any{
			"type":            "urn:verdict:uncertain-outcome",
			"title":           "The request may or may not have been executed",
			"detail":          "Do not take this for a plain failure. Ask the upstream for the outcome, or replay with the same idempotency key where the operation honours one.",
			"case_id":         "i1",
			"request_id":      "r1",
			"verdict":         "denied",
			"reason":          "max_attempts",
			"evidence":        "SENT_NO_RESPONSE",
			"execution":       "UNKNOWN",
			"cause":           "upstream_reset_before_response_started{connection_termination}",
			"upstream":        "app",
			"operation":       "order",
			"method":          "POST",
			"path":            "/orders/7?x=<1>",
			"attempts":        3.0,
			"idempotency_key": "k1",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the problem differs (-want +got):\n%s", diff)
		}
		log := l.log.String()
		for _, word := range []string{"level=WARN", `msg="uncertain outcome"`, "case=i1", "request_id=r1", "verdict=denied", "reason=max_attempts", "upstream=app", "operation=order", "attempt=3"} {
			if !strings.Contains(log, word) {
				t.Errorf("the log lacks %s: %s", word, log)
			}
		}
	})
}

// TestFreshCase: where Envoy did not say the request's id, header, problem and log share a new one.
func TestFreshCase(t *testing.T) {
	inLab(t, "", func(t *testing.T, l *lab) {
		e := l.open(t, judgeMetadata())
		seen := map[string]bool{}
		for range 2 {
			a := e.send(showHeaders(append(resetArgs, "id=-")))
			id := a.set[evidence.ReportAmbiguityID]
			if len(id) < 20 || seen[id] || !strings.Contains(a.problem, `"case_id":"`+id+`"`) || !strings.Contains(l.log.String(), "case="+id) {
				t.Errorf("case %q, problem %s, log %s", id, a.problem, l.log.String())
			}
			seen[id] = true
		}
		e.close()
	})
}

// TestBytesThatAreNoText: a path or a request id may hold any byte. Headers keep them, JSON cannot.
func TestBytesThatAreNoText(t *testing.T) {
	inLab(t, "", func(t *testing.T, l *lab) {
		e := l.open(t, judgeMetadata())
		a := e.send(showHeaders(append(resetArgs, "path=/\xff\xfe\u2028", "request-id=\xe9", "cluster=\xff", "operation=\xfe")))
		e.close()
		if a.err != nil || a.set[evidence.ReportRequestID] != "\xe9" || !utf8.ValidString(a.problem) || !json.Valid([]byte(a.problem)) {
			t.Errorf("%v: %q, problem %q", a.err, a.set, a.problem)
		}
	})
}

// TestUncertainIsCountedOnce: also where the report is left to the finalizer.
func TestUncertainIsCountedOnce(t *testing.T) {
	for _, lines := range []string{"0", "190"} {
		inLab(t, "", func(t *testing.T, l *lab) {
			args := append(resetArgs, "outer-details=via_upstream", "lines="+lines)
			e := l.open(t, judgeMetadata())
			a := e.send(showHeaders(args))
			e.close()
			if a.set[evidence.ReportVerdict] == "" {
				e = l.open(t, judgeMetadata(evidence.MetadataRole, "finalizer", evidence.MetadataMaxHeaders, "250"))
				e.maxHeaders = 250
				if a := e.send(showHeaders(args)); a.set[evidence.ReportAmbiguityID] != "i1" {
					t.Errorf("%s lines: the finalizer says %s", lines, describe(a))
				}
				e.close()
			}
			if got := l.counts(t, "verdict_uncertain_outcomes_total"); got["upstream=app"] != 1 {
				t.Errorf("%s lines: uncertain outcomes %v", lines, got)
			}
			if n := strings.Count(l.log.String(), "uncertain outcome"); n != 1 {
				t.Errorf("%s lines: %d log lines", lines, n)
			}
		})
	}
}

// TestMetrics: what happened around the decisions is counted where it happened.
func TestMetrics(t *testing.T) {
	inLab(t, "", func(t *testing.T, l *lab) {
		for _, args := range [][]string{{"facts=none"}, {"version=v2"}, {"method=GET", "end"}} {
			e := l.open(t, judgeMetadata())
			e.send(showHeaders(args))
			e.close()
		}
		e := l.open(t, judgeMetadata(evidence.MetadataRole, "finalizer"))
		e.allowModeOverride, e.allowEnvoy = false, false
		e.send(showHeaders([]string{"facts=none"}))
		e.close()
		for metric, want := range map[string]float64{"verdict_facts_missing_total": 2, "verdict_finalized_total": 1, "verdict_waits_abandoned_total": 0} {
			if got := l.counts(t, metric)[""]; got != want {
				t.Errorf("%s is %v, want %v", metric, got, want)
			}
		}
		decided := l.counts(t, "verdict_decisions_total")
		if decided["evidence=RESPONSE_RECEIVED,reason=none,upstream=app,verdict=retry"] != 1 || decided["evidence=SENT_NO_RESPONSE,reason=no_evidence,upstream=other,verdict=ambiguous"] != 3 {
			t.Errorf("decided: %v", decided)
		}
	})
}
