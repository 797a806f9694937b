package decisionapi

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/decision"
	"github.com/verdictproxy/verdict/pkg/decision/decisiontest"
)

// TestScenarios replays the cases of package decision through the API.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../../pkg/decision/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	l := newLab(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "decide":
					return l.replay(t, d.Input)
				case "retry-after":
					return l.replayRetryAfter(t, d.Input)
				}
				d.Fatalf(t, "unknown command %s", d.Cmd)
				return ""
			})
		})
	}
}

// replay asks Explain and Decide: they must agree.
func (l *lab) replay(t *testing.T, line string) string {
	t.Helper()
	c, err := decisiontest.ParseCase(line)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	l.policy = c.Policy
	l.Random = func() float64 { return c.R }
	facts := l.message(c.Facts)
	explained, err := l.decision.Explain(within(t), &retryv1.ExplainRequest{Facts: facts})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for _, dry := range []bool{true, false} {
		decided, err := l.decision.Decide(within(t), &retryv1.DecideRequest{Facts: facts, DryRun: dry})
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		d, e := domain(decided.GetDecision()), domain(explained.GetDecision())
		if d != e {
			t.Errorf("%s: Decide says %+v, Explain %+v", line, d, e)
		}
		if token := decided.GetGrant() != ""; token != (d.Verdict == decision.Retry && !dry) {
			t.Errorf("%s: %v, dry run %v: grant %q", line, d.Verdict, dry, decided.GetGrant())
		}
		if open := decided.GetCaseId() != ""; open != (d.Verdict != decision.Retry && d.Uncertain && !dry) {
			t.Errorf("%s: %v, uncertain %v, dry run %v: case %q", line, d.Verdict, d.Uncertain, dry, decided.GetCaseId())
		}
	}
	var rules []decision.RuleOutcome
	for _, r := range explained.GetRules() {
		rules = append(rules, decision.RuleOutcome{
			Number: int(r.GetNumber()), Name: r.GetName(),
			Verdict: decision.Verdict(r.GetVerdict()), Reason: decision.Reason(r.GetReason()),
		})
	}
	return decisiontest.Format(domain(explained.GetDecision()), rules)
}

// replayRetryAfter reads the wait off a 429 whose backoff is nothing but the floor.
func (l *lab) replayRetryAfter(t *testing.T, input string) string {
	t.Helper()
	l.policy = decision.DefaultPolicy()
	l.policy.RetryAfterCap = math.MaxInt64
	l.Random = func() float64 { return 0 }
	l.Now = func() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }
	answer := &retryv1.HttpResponse{Status: 429}
	for _, line := range strings.Split(input, "\n") {
		name, value, _ := strings.Cut(line, ":")
		answer.Headers = append(answer.Headers, &retryv1.Header{Name: strings.ToUpper(name), Value: value})
	}
	r, err := l.decision.Explain(within(t), &retryv1.ExplainRequest{Facts: &retryv1.Facts{
		Upstream: "app", Attempt: 1, Delivery: retryv1.Delivery_DELIVERY_NOT_DELIVERED,
		Body:     &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_NONE},
		Deadline: &retryv1.Facts_NoDeadline{},
		Ending:   &retryv1.Ending{Ending: &retryv1.Ending_Http{Http: answer}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if v := r.GetDecision().GetVerdict(); v != retryv1.Verdict_VERDICT_RETRY {
		t.Fatalf("%v, want a retry:\n%s", r.GetDecision(), input)
	}
	return fmt.Sprintln(r.GetDecision().GetWait().AsDuration())
}

// bodies has a body of each kind of replayability.
var bodies = map[decision.Replayability]*retryv1.Body{
	decision.ReplayabilityUnknown: nil,
	decision.OneShot:              {Kind: retryv1.BodyKind_BODY_KIND_STREAM},
	decision.Reopenable:           {Kind: retryv1.BodyKind_BODY_KIND_FILE},
	decision.Replayable:           {Kind: retryv1.BodyKind_BODY_KIND_BYTES},
}

// message writes facts as a client would, and sets the server's clock so that a Retry-After date can
// stand for a fraction of a second too.
func (l *lab) message(f decision.Facts) *retryv1.Facts {
	o := &retryv1.Observation{
		Reach:     &retryv1.Observation_Evidence{Evidence: retryv1.Evidence(f.Evidence)},
		Status:    uint32(f.Status),
		Permanent: retryv1.PermanentCategory(f.Permanent),
	}
	if f.RetryAfter%time.Second == 0 {
		o.RetryAfter = []string{fmt.Sprint(int64(f.RetryAfter / time.Second))}
	} else {
		at := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
		l.Now = func() time.Time { return at.Add(-f.RetryAfter) }
		o.RetryAfter = []string{at.Format("Mon, 02 Jan 2006 15:04:05 GMT")}
	}
	m := &retryv1.Facts{
		Upstream: "app",
		Call: &retryv1.Call{
			Idempotency:     retryv1.Idempotency(f.Idempotency),
			IdempotencyKeys: []string{"a-key"},
		},
		Body:       bodies[f.Body],
		EarlyData:  retryv1.EarlyData(f.EarlyData),
		Attempt:    uint32(f.Attempt),
		Ending:     &retryv1.Ending{Ending: &retryv1.Ending_Observation{Observation: o}},
		Delivery:   retryv1.Delivery(f.Delivery),
		Credential: retryv1.Credential(f.Credential) + 1,
		Runtime:    retryv1.Runtime(f.Runtime) + 1,
		Earlier: &retryv1.Earlier{
			Execution: retryv1.Execution(f.Earlier.Execution),
			Certainty: retryv1.Certainty(f.Earlier.Certainty),
		},
	}
	if f.PreviousWait != 0 {
		m.PreviousWait = durationpb.New(f.PreviousWait)
	}
	if f.MaxWait != 0 {
		m.MaxWait = durationpb.New(max(f.MaxWait, 0))
	}
	switch f.Deadline {
	case decision.DeadlineKnown:
		m.Deadline = &retryv1.Facts_Remaining{Remaining: durationpb.New(f.Remaining)}
	case decision.DeadlineNone:
		m.Deadline = &retryv1.Facts_NoDeadline{NoDeadline: &emptypb.Empty{}}
	}
	if f.Budget == decision.BudgetEmpty {
		m.Upstream = "empty"
	}
	return m
}

func domain(d *retryv1.Decision) decision.Decision {
	return decision.Decision{
		Verdict: decision.Verdict(d.GetVerdict()), Reason: decision.Reason(d.GetReason()),
		Category: decision.Permanent(d.GetCategory()), Rule: int(d.GetRule()),
		Evidence: decision.Evidence(d.GetEvidence()), Execution: decision.Execution(d.GetExecution()),
		Uncertain: d.GetCertainty() != retryv1.Certainty_CERTAINTY_CERTAIN, Wait: d.GetWait().AsDuration(),
	}
}
