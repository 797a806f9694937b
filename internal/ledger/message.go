package ledger

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// maxPath bounds the path of a case in bytes.
const maxPath = 1024

// Case is the open case that an entry makes at a time.
func (e Entry) Case(now time.Time) *Case {
	return &Case{
		CaseId:         text(e.CaseID),
		Time:           timestamppb.New(now),
		State:          retryv1.CaseState_CASE_STATE_OPEN,
		RequestId:      text(e.RequestID),
		Upstream:       text(e.Upstream),
		Operation:      text(e.Operation),
		Method:         text(e.Method),
		Path:           text(e.Path[:min(len(e.Path), maxPath)]),
		IdempotencyKey: text(e.Key),
		Attempts:       uint32(max(e.Attempts, 0)),
		Evidence:       retryv1.Evidence(e.Decision.Evidence),
		Execution:      retryv1.Execution(e.Decision.Execution),
		Verdict:        retryv1.Verdict(e.Decision.Verdict),
		Reason:         retryv1.Reason(e.Decision.Reason),
		Cause:          text(e.Cause),
		Facts:          e.Given(),
		Rules:          Ladder(e.Rules),
	}
}

// text is what protobuf takes for a string: what a client sent may be any bytes.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Merge is what an old and a newer entry say of one case: the newer decision with its facts and rules, the
// larger number of attempts, of all else what the newer one says, and where that says nothing, the old
// one. Time and state are the old one's.
func Merge(old, newer *Case) *Case {
	merged := proto.CloneOf(old)
	merged.Evidence, merged.Execution, merged.Verdict, merged.Reason = newer.GetEvidence(), newer.GetExecution(), newer.GetVerdict(), newer.GetReason()
	merged.Facts, merged.Rules = newer.GetFacts(), newer.GetRules()
	m := merged.ProtoReflect()
	newer.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch field.Name() {
		case "time", "state", "resolved", "note":
		case "attempts":
			merged.Attempts = max(old.GetAttempts(), newer.GetAttempts())
		default:
			m.Set(field, value)
		}
		return true
	})
	return merged
}

// Resolved is the case after somebody has found out at a time what became of it.
func Resolved(c *Case, state retryv1.CaseState, note string, now time.Time) *Case {
	c = proto.CloneOf(c)
	c.State, c.Note, c.Resolved = state, text(note), timestamppb.New(now)
	return c
}
