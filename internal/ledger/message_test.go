package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// The newer entry has the word, except where it says nothing; what a newer schema has added stays.
func TestMerge(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	old := Resolved(Entry{
		CaseID: "c", RequestID: "r", Upstream: "app", Operation: "pay", Method: "POST", Path: "/pay", Key: "k", Attempts: 3, Cause: "reset",
		Decision: decision.Decision{Verdict: decision.Ambiguous, Reason: decision.ReasonSentNoResponse, Evidence: decision.SentNoResponse, Execution: decision.ExecutionUnknown},
		Facts:    decision.Facts{Attempt: 3}, Rules: []decision.RuleOutcome{{Number: 1}, {Number: 2}},
	}.Case(early), retryv1.CaseState_CASE_STATE_EXECUTED, "asked", early)
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType), 7)
	old.ProtoReflect().SetUnknown(unknown)
	before := proto.CloneOf(old)

	got := Merge(old, Entry{CaseID: "c", Cause: "cut off", Decision: decision.Decision{Verdict: decision.Denied}}.Case(late))
	want := &Case{
		CaseId: "c", RequestId: "r", Upstream: "app", Operation: "pay", Method: "POST", Path: "/pay", IdempotencyKey: "k", Attempts: 3, Cause: "cut off",
		Verdict: retryv1.Verdict_VERDICT_DENIED,
		Time:    timestamppb.New(early), State: retryv1.CaseState_CASE_STATE_EXECUTED, Note: "asked", Resolved: timestamppb.New(early),
	}
	want.ProtoReflect().SetUnknown(unknown)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if !proto.Equal(old, before) {
		t.Error("the old case was changed")
	}
	if again := Merge(got, got); !proto.Equal(again, got) {
		t.Errorf("%v said twice is %v", got, again)
	}
	more := Merge(got, Entry{CaseID: "c", Attempts: 4, Facts: decision.Facts{Attempt: 4}}.Case(late))
	if more.GetAttempts() != 4 || more.GetFacts().GetAttempt() != 4 {
		t.Errorf("%v", more)
	}
}

// Times are compared to the nanosecond, and what is left out selects all.
func TestFilter(t *testing.T) {
	at := time.Unix(100, 5)
	c := Entry{CaseID: "c", Upstream: "app", Operation: "pay"}.Case(at)
	for _, test := range []struct {
		filter Filter
		want   bool
	}{
		{Filter{}, true},
		{Filter{Upstream: "app", Operation: "pay", Since: at, Until: at.Add(1), State: retryv1.CaseState_CASE_STATE_OPEN}, true},
		{Filter{Upstream: "ap"}, false},
		{Filter{Operation: "p"}, false},
		{Filter{Since: at.Add(1)}, false},
		{Filter{Until: at}, false},
		{Filter{State: retryv1.CaseState_CASE_STATE_EXECUTED}, false},
	} {
		if test.filter.Match(c) != test.want {
			t.Errorf("%+v: %v", test.filter, !test.want)
		}
	}
}
