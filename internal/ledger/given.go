package ledger

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// Given writes down what the rules were given, so that DecisionService.Explain reads the same again, but for
// the budget and the class, which are not the message's alone. Entries of unknown facts give nil.
func (e Entry) Given() *retryv1.Facts {
	f := &e.Facts
	if *f == (decision.Facts{}) {
		return nil
	}
	m := &retryv1.Facts{
		Upstream: bounded(e.Upstream, 256),
		Call: &retryv1.Call{
			Method:      bounded(e.Method, 64),
			Path:        bounded(e.Path, 8192),
			Idempotency: retryv1.Idempotency(f.Idempotency),
		},
		EarlyData: retryv1.EarlyData(f.EarlyData),
		Attempt:   uint32(min(max(f.Attempt, 0), 1_000_000)),
		Ending: &retryv1.Ending{Ending: &retryv1.Ending_Observation{Observation: &retryv1.Observation{
			Reach:     &retryv1.Observation_Evidence{Evidence: retryv1.Evidence(f.Evidence)},
			Status:    answered(f),
			Permanent: retryv1.PermanentCategory(f.Permanent),
		}}},
		Delivery:   retryv1.Delivery(f.Delivery),
		Credential: retryv1.Credential(f.Credential) + retryv1.Credential_CREDENTIAL_NOT_OURS,
		Runtime:    retryv1.Runtime(f.Runtime) + retryv1.Runtime_RUNTIME_SERVING,
	}
	if e.Key != "" {
		m.Call.IdempotencyKeys = []string{bounded(e.Key, 1024)}
	}
	if kind := plainest[f.Body]; kind != retryv1.BodyKind_BODY_KIND_UNSPECIFIED {
		m.Body = &retryv1.Body{Kind: kind}
	}
	if f.Earlier != (decision.Earlier{}) {
		m.Earlier = &retryv1.Earlier{
			Execution: retryv1.Execution(f.Earlier.Execution),
			Certainty: retryv1.Certainty(f.Earlier.Certainty),
		}
	}
	if f.RetryAfter > 0 { // whole seconds, whichever form it had
		m.Ending.GetObservation().RetryAfter = []string{strconv.FormatInt(int64((f.RetryAfter+time.Second-1)/time.Second), 10)}
	}
	if f.PreviousWait > 0 {
		m.PreviousWait = durationpb.New(min(f.PreviousWait, 24*time.Hour))
	}
	if f.MaxWait != 0 {
		m.MaxWait = durationpb.New(min(max(f.MaxWait, 0), 24*time.Hour))
	}
	switch f.Deadline {
	case decision.DeadlineNone:
		m.Deadline = &retryv1.Facts_NoDeadline{NoDeadline: new(emptypb.Empty)}
	case decision.DeadlineKnown:
		left := min(max(f.Remaining, -time.Hour), 24*time.Hour)
		m.Deadline = &retryv1.Facts_Remaining{Remaining: durationpb.New(left)}
	}
	return m
}

// plainest is a kind of body for each replayability.
var plainest = map[decision.Replayability]retryv1.BodyKind{
	decision.OneShot:    retryv1.BodyKind_BODY_KIND_STREAM,
	decision.Reopenable: retryv1.BodyKind_BODY_KIND_FILE,
	decision.Replayable: retryv1.BodyKind_BODY_KIND_BYTES,
}

// bounded is valid UTF-8 of at most n bytes.
func bounded(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	for s = text(s); len(s) > n; s = text(s[:n]) {
		n--
	}
	return s
}

// Ladder is what each rule said.
func Ladder(outcomes []decision.RuleOutcome) []*retryv1.RuleOutcome {
	var rules []*retryv1.RuleOutcome
	for _, o := range outcomes {
		rules = append(rules, &retryv1.RuleOutcome{
			Number:  uint32(o.Number),
			Name:    o.Name,
			Verdict: retryv1.Verdict(o.Verdict),
			Reason:  retryv1.Reason(o.Reason),
		})
	}
	return rules
}

// answered is the status that the upstream sent, where one arrived; Envoy's own does not count.
func answered(f *decision.Facts) uint32 {
	if f.Evidence != decision.ResponseReceived && f.Evidence != decision.PartialResponse {
		return 0
	}
	return uint32(min(max(f.Status, 0), 999))
}
