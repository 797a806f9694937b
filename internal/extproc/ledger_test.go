package extproc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/memory"
	"github.com/verdictproxy/verdict/internal/recent"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// TestEntriesHaveTheLadder: a case shows what the rules were given and what they said; where nothing was
// known of an answer, neither what was assumed nor the rules that were let pass.
func TestEntriesHaveTheLadder(t *testing.T) {
	const reset = "details=upstream_reset_before_response_started{connection_termination}"
	for _, test := range []struct{ name, facts, want string }{
		{"a POST", reset,
			"attempt 1 REPLAYABLE non_idempotent: 1 2 3 4 5 6 7 8=ambiguous(sent_no_response) 9"},
		{"a PUT's third attempt", reset + " method=PUT attempt=3",
			"attempt 3 REPLAYABLE idempotent: 1=denied(max_attempts) 2 3 4 5 6 7 8 9"},
		{"no facts", "facts=none",
			"attempt 0 UNKNOWN non_idempotent: 4 7 8=ambiguous(no_evidence) 9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, "", func(t *testing.T, l *lab) {
				l.Ledger, l.Recent = memory.New(0, nil), new(recent.Decisions)
				if _, err := l.process(judgeMetadata(), 0, showHeaders(strings.Fields(test.facts))); err != nil {
					t.Fatal(err)
				}
				page, err := l.Ledger.List(t.Context(), ledger.Filter{}, 0, 10)
				if err != nil || len(page.Cases) != 1 {
					t.Fatalf("%v, %v", page, err)
				}
				entered := page.Cases[0]
				remembered := l.Recent.Find(entered.GetCaseId())
				if len(remembered) != 1 {
					t.Fatalf("%d remembered", len(remembered))
				}
				e := remembered[0].Entry
				got := fmt.Sprintf("attempt %d %v %v:", e.Facts.Attempt, e.Facts.Body, e.Facts.Idempotency)
				for _, r := range e.Rules {
					got += fmt.Sprintf(" %d", r.Number)
					if r.Verdict != decision.VerdictNone {
						got += fmt.Sprintf("=%v(%v)", r.Verdict, r.Reason)
					}
				}
				if got != test.want {
					t.Errorf("%s\nwant %s", got, test.want)
				}
				if diff := cmp.Diff(e.Case(entered.GetTime().AsTime()), entered, protocmp.Transform()); diff != "" {
					t.Errorf("entered is not what is remembered: %s", diff)
				}
			})
		})
	}
}
