package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// Without the facts, or with facts of another version, nothing is proven and nothing is retried, not
// even what never left Envoy.
func TestEvidenceFactsUnknown(t *testing.T) {
	t.Parallel()
	v2 := func(c *stack.Config) error {
		facts := stack.DelegatedConfig("attempts", "facts") + "/mutations/response_mutations/0/append/header/value"
		value, err := c.Get(facts)
		if err != nil {
			return err
		}
		return stack.Set(facts, `"`+strings.Replace(value.(string), "v1 ", "v2 ", 1)+`"`)(c)
	}
	mutations := stack.DelegatedConfig("attempts", "facts") + "/mutations/response_mutations"
	for _, p := range []stack.Patch{
		stack.NewPatch("no facts filter", stack.Remove(stack.HTTPFilter("attempts", "facts"))),
		stack.NewPatch("another version", v2),
		stack.NewPatch("no details", stack.Remove(mutations+"/1")),
	} {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Config: tableConfig, Patches: []stack.Patch{stack.LabClusters(), p}})
			failed := 0
			for _, test := range []struct{ host, fault string }{{"app", "reset"}, {"app", "503"}, {"app", "429"}, {"app", "408"}, {"closed", ""}, {"no-hosts", ""}, {"h2", "refused"}} {
				for _, class := range classes {
					r := class.request
					r.Host, r.Fault = test.host+".example", test.fault
					a := s.Do(r)
					failed++
					if hits := len(s.Upstream.Hits(a.ID)); hits > 1 {
						t.Errorf("%s %s %s: %d hits", class.name, test.host, test.fault, hits)
					}
					report := a.Report()
					if class.name != "POST" {
						if report.Verdict != "denied" && report.Verdict != "ambiguous" || report.Execution != "UNKNOWN" {
							t.Errorf("%s %s %s: %+v", class.name, test.host, test.fault, report)
						}
						continue
					}
					wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: report.Attempts})
					if report.AmbiguityID == "" {
						t.Errorf("POST %s %s: no x-retry-ambiguity-id", test.host, test.fault)
					}
				}
			}
			if got := s.ServiceMetric(0, "verdict_facts_missing_total"); int(got) != failed {
				t.Errorf("verdict_facts_missing_total %v, want %d", got, failed)
			}
		})
	}
}

// An answer that is cut off after its headers has left Envoy already: the client sees the cut, nobody
// retries, and the access log tells of it.
func TestEvidenceCutOff(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Patches: []stack.Patch{stack.NewPatch("another cluster", upstreamLike("other", "", ""))}})
	for i, test := range []struct {
		method, fault string
		verdict       string
		hits          int
	}{
		{"GET", "half-body", "", 1},
		{"POST", "half-body", "", 1},
		{"PUT", "half-body end=rst", "", 1},
		{"POST", "half-body:500", "denied", 1},
		{"POST", "half-body:503", "ambiguous", 1},
		{"GET", "half-body:404 chunked", "denied", 1},
	} {
		r := stack.Request{Method: test.method, Host: "other.example", Target: "/cut", Fault: test.fault + " hold=100ms"}
		if test.method != "GET" {
			r.Body = "pay"
		}
		a, err := s.Try(context.Background(), r)
		if err == nil {
			t.Errorf("%s %s: a whole answer: %d, %d bytes", test.method, test.fault, a.Status, len(a.Body))
		}
		if got := a.Report().Verdict; got != test.verdict {
			t.Errorf("%s %s: verdict %q, want %q", test.method, test.fault, got, test.verdict)
		}
		wantHits(t, s, a, test.hits, test.hits)
		waitFor(t, "the cut to be counted", func() bool {
			return int(s.ServiceMetric(0, "verdict_cut_off_answers_total", "upstream=other")) == i+1
		})
	}
	lines := 0
	for line := range strings.Lines(s.ServiceLog(0)) {
		if strings.Contains(line, "answer cut off") && strings.Contains(line, "PARTIAL_RESPONSE") &&
			strings.Contains(line, "upstream=other") && strings.Contains(line, "path=/cut") &&
			strings.Contains(line, "cause=upstream_reset_after_response_started{") && strings.Contains(line, "case=") {
			lines++
		}
	}
	if lines != 6 {
		t.Errorf("%d lines of the log tell of a cut, want 6:\n%s", lines, s.ServiceLog(0))
	}
}

// An error body that is cut off while the judge waits for its end becomes an answer of Envoy's own, which
// goes out past the judge: nothing is retried, no token is taken, and the finalizer tells what is known.
func TestEvidenceCutOffWhileHeld(t *testing.T) {
	t.Parallel()
	log := newEventLog(t)
	s := start(t, stack.Options{Config: tableConfig, ExtprocArgs: log.args()})
	lost := stack.Report{Verdict: "denied", Reason: "retry_not_executed", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
	unknown := stack.Report{Verdict: "ambiguous", Reason: "no_evidence", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
	// The finalizer does not know the upstream, so the key counts for nothing.
	for i, want := range []stack.Report{lost, lost, unknown} {
		r := classes[i].request
		r.Fault = "half-body:503 hold=300ms, ok"
		a := s.Do(r)
		if a.Status != 502 {
			t.Errorf("%s: status %d", classes[i].name, a.Status)
		}
		wantReport(t, a, want)
		if uncertain := a.Report().AmbiguityID != ""; uncertain != (i > 0) {
			t.Errorf("%s: uncertain %v", classes[i].name, uncertain)
		}
		wantHits(t, s, a, 1, 1)
		wantNothingInternal(t, a)
	}
	if net := granted(log.events(t, "app")); len(net) != 0 {
		t.Errorf("granted %v", net)
	}
}
