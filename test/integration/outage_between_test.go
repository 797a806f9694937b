package integration

import (
	"context"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// Verdict says retry and dies: what the second attempt is answered is the upstream's, but the first may have
// been executed, and Envoy alone has to say so.
func TestOutageBetweenAttempts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method, fault string
		status        int
		labelled      bool
	}{
		{"DELETE", "reset, 404 delay=0.6s", 404, true},
		{"PUT", "reset, 500 delay=0.6s", 500, true},
		{"GET", "reset, 404 delay=0.6s", 404, false},
		{"PUT", "reset, ok delay=0.6s", 200, false},
	} {
		t.Run(test.method+" "+test.fault, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Config: quick})
			id := s.NewID()
			answered := make(chan stack.Answer, 1)
			go func() {
				a, err := s.Try(context.Background(), stack.Request{Method: test.method, ID: id, Fault: test.fault})
				if err != nil {
					t.Error(err)
				}
				answered <- a
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := s.Upstream.WaitHits(ctx, id, 2); err != nil {
				t.Fatal(err)
			}
			s.KillService(0)
			a := <-answered
			if a.Status != test.status {
				t.Errorf("status %d, want %d", a.Status, test.status)
			}
			wantHits(t, s, a, 2, 2)
			report := a.Report()
			if labelled := report.Verdict == "ambiguous" && report.Reason == "no_evidence" && report.AmbiguityID != ""; labelled != test.labelled {
				t.Errorf("report %+v, labelled should be %v", report, test.labelled)
			}
		})
	}
}
