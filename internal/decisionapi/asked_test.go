package decisionapi

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// What a case shows of its facts, Explain reads as the rules had it.
func TestGivenIsReadAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func(n int) uint8 { return uint8(r.IntN(n)) }
	for range 20_000 {
		f := decision.Facts{
			Evidence: decision.Evidence(some(5)), Status: []int{0, 200, 401, 429, 503, 999}[some(6)], Permanent: decision.Permanent(some(7)),
			Body: decision.Replayability(some(4)), EarlyData: decision.EarlyData(some(3)), Credential: decision.Credential(some(3)),
			Attempt: r.IntN(4), Earlier: decision.Earlier{Execution: decision.Execution(some(3)), Certainty: decision.Certainty(some(3))},
			PreviousWait: time.Duration(some(2)) * time.Second, Delivery: decision.Delivery(some(3)), Deadline: decision.DeadlineState(some(3)),
			MaxWait: time.Duration(r.IntN(3)-1) * time.Minute, RetryAfter: time.Duration(some(3)) * time.Hour, Runtime: decision.RuntimeState(some(2)),
		}
		if f.MaxWait < 0 {
			f.MaxWait = -1
		}
		if f.Deadline == decision.DeadlineKnown {
			f.Remaining = time.Duration(r.IntN(4)-1) * time.Second
		}
		m := ledger.Entry{Facts: f, Upstream: "app"}.Given()
		if m == nil {
			if f != (decision.Facts{}) {
				t.Fatalf("%+v is not shown", f)
			}
			continue
		}
		if !wellFormed(m) {
			t.Fatalf("%+v is shown as %v, which the API refuses", f, m)
		}
		if f.Evidence != decision.ResponseReceived && f.Evidence != decision.PartialResponse {
			f.Status = 0 // not the upstream's
		}
		if f.Body == decision.ReplayabilityUnknown {
			f.Body = decision.OneShot // as it is read
		}
		if got := facts(m, time.Now); got != f {
			t.Fatalf("%+v is read again as %+v", f, got)
		}
	}
}

// Whatever a peer has sent, what is shown is small and what the API itself takes.
func TestGivenIsBounded(t *testing.T) {
	for _, name := range []string{strings.Repeat("é", 6000), strings.Repeat("\xff", 9000), strings.Repeat("a", 63) + "é"} {
		m := ledger.Entry{
			Upstream: name, Method: name, Path: name, Key: name,
			Facts: decision.Facts{
				Attempt: 1 << 40, Status: -5, Deadline: decision.DeadlineKnown, Remaining: -1 << 62,
				MaxWait: 1 << 62, PreviousWait: 1 << 62, RetryAfter: 1 << 62,
			},
		}.Given()
		if err := validate(&retryv1.ExplainRequest{Facts: m}); err != nil {
			t.Errorf("%.10q: %v", name, err)
		}
		if n := proto.Size(m); n > 10<<10 || !utf8.ValidString(m.GetCall().GetMethod()) {
			t.Errorf("%.10q: %d bytes", name, n)
		}
	}
}

// A case shows the ladder of its decision, and so does Why.
func TestCasesShowTheLadder(t *testing.T) {
	l := newLab(t)
	f := refused()
	f.Call = &retryv1.Call{Method: "POST", Path: "/pay"}
	f.Ending = stage(retryv1.Stage_STAGE_CONNECTION_RESET)
	explained, err := l.Explain(t.Context(), &retryv1.ExplainRequest{Facts: f})
	if err != nil {
		t.Fatal(err)
	}
	var seen []Decided
	l.Observe = func(_ context.Context, d Decided) { seen = append(seen, d) }
	l.decide(t, f)
	m := ledger.Entry{
		CaseID: "c", Upstream: "app", Method: "POST", Path: "/pay", Decision: seen[0].Decision, Facts: seen[0].Facts, Rules: seen[0].Rules,
	}.Case(time.Now())
	again, err := l.Explain(t.Context(), &retryv1.ExplainRequest{Facts: m.GetFacts()})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.GetRules()) != 9 || len(explained.GetRules()) != 9 {
		t.Fatalf("%d and %d rules", len(m.GetRules()), len(explained.GetRules()))
	}
	for i, want := range explained.GetRules() {
		if !proto.Equal(m.GetRules()[i], want) || !proto.Equal(again.GetRules()[i], want) {
			t.Errorf("%v and again %v, want %v", m.GetRules()[i], again.GetRules()[i], want)
		}
	}
}
