package extproc

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/memory"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// A retry that router A has not done is entered and counted as what its caller was told, once it is known.
func TestRefusedRetriesAreEntered(t *testing.T) {
	for _, test := range []struct {
		args    string
		entered int
	}{
		{"method=PUT control=retry reported=denied", 1},
		{"method=PUT control=retry reported=denied drained", 1}, // since then
		{"method=GET control=retry reported=denied", 0},         // nothing uncertain about it
		{"method=GET status=401 control=retry reported=denied", 0},
	} {
		inLab(t, "", func(t *testing.T, l *lab) {
			l.Ledger = memory.New(0, nil)
			if strings.Contains(test.args, "drained") {
				l.Runtime = func(string) decision.RuntimeState { return decision.RuntimeDraining }
			}
			e := l.open(t, judgeMetadata(evidence.MetadataRole, "finalizer"))
			a := e.send(showHeaders(append(strings.Fields(test.args), "outer-details=via_upstream")))
			e.close()
			if a.err != nil || len(a.set) > 0 || a.problem != "" {
				t.Errorf("%s: %s", test.args, describe(a))
			}
			page, err := l.Ledger.List(t.Context(), ledger.Filter{}, 0, 10)
			if err != nil || len(page.Cases) != test.entered {
				t.Fatalf("%s: %v, %v", test.args, page.Cases, err)
			}
			for _, c := range page.Cases {
				if c.GetCaseId() != "i1" || c.GetUpstream() != "app" || c.GetReason().String() != "REASON_RETRY_NOT_EXECUTED" {
					t.Errorf("%s: %v", test.args, c)
				}
			}
			if got := l.counts(t, "verdict_decisions_total"); got["evidence=RESPONSE_RECEIVED,reason=retry_not_executed,upstream=app,verdict=denied"] != 1 {
				t.Errorf("%s: decided %v", test.args, got)
			}
			if got := l.counts(t, "verdict_finalized_total")[""]; got != 0 {
				t.Errorf("%s: %v were labelled", test.args, got)
			}
		})
	}
}
