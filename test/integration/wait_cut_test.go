package integration

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// An error body that is cut off while the judge waits for it becomes an answer of Envoy's own that no
// judge sees. The finalizer labels it, and where the request is not safe it is uncertain.
func TestWaitErrorBodyCut(t *testing.T) {
	t.Parallel()
	options := stack.Options{Config: quick, Patches: []stack.Patch{stack.LabClusters()}}
	log := withTokenLog(t, &options)
	s := start(t, options)
	unknown := stack.Report{Verdict: "denied", Reason: "retry_not_executed", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
	ambiguous := unknown
	ambiguous.Verdict, ambiguous.Reason = "ambiguous", "no_evidence"
	cases := []struct {
		name, host, fault string
		status            int
	}{
		{"FIN", "app", "half-body:STATUS hold=200ms, ok", 502},
		{"RST", "app", "half-body:STATUS hold=200ms end=rst, ok", 502},
		{"FIN, chunked", "app", "half-body:STATUS hold=200ms body=100kB chunked, ok", 502},
		{"FIN, h2", "h2", "half-body:STATUS hold=200ms, ok", 503},
		{"RST, h2", "h2", "half-body:STATUS hold=200ms end=rst, ok", 503},
		{"trickling beyond the attempt's timeout", "short", "trickle:STATUS body=1000 piece=10 every=100ms, ok", 504},
	}
	for _, c := range cases {
		for method, want := range map[string]stack.Report{"GET": unknown, "PUT": unknown, "POST": ambiguous} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				t.Parallel()
				status := "503"
				if method == "POST" { // a POST answered 503 is not waited for
					status = "429"
				}
				r := stack.Request{Method: method, Host: c.host + ".example", Fault: strings.ReplaceAll(c.fault, "STATUS", status)}
				a := s.Do(r)
				if a.Status != c.status {
					t.Errorf("status %d, want %d", a.Status, c.status)
				}
				wantReport(t, a, want)
				if uncertain := a.Report().AmbiguityID != ""; uncertain != (method != "GET") {
					t.Errorf("x-retry-ambiguity-id %q", a.Report().AmbiguityID)
				}
				if hits := len(s.Upstream.Hits(a.ID)); hits != 1 {
					t.Errorf("%d hits, want 1", hits)
				}
				wantNothingInternal(t, a)
			})
		}
	}
	t.Run("no token was taken", func(t *testing.T) {
		for _, upstream := range []string{"app", "app-h2", "short"} {
			log.want(t, upstream, 0, 0)
		}
	})
}
