package decisionapi

import (
	"strconv"
	"strings"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// facts reads a valid message; what is left out stays at the safe zero value. The class, the budget and
// the runtime are not the message's alone: see Server.
func facts(m *retryv1.Facts, now func() time.Time) decision.Facts {
	e := endingOf(m.GetEnding(), now)
	f := decision.Facts{
		Evidence:   e.evidence,
		Status:     e.status,
		Permanent:  e.permanent,
		RetryAfter: e.retryAfter,
		Body:       bodyOf(m.GetBody()).Replayability(),
		EarlyData:  decision.EarlyData(m.GetEarlyData()),
		Credential: credential(m.GetCredential()),
		Attempt:    int(m.GetAttempt()),
		Earlier: decision.Earlier{
			Execution: decision.Execution(m.GetEarlier().GetExecution()),
			Certainty: decision.Certainty(m.GetEarlier().GetCertainty()),
		},
		PreviousWait: m.GetPreviousWait().AsDuration(),
		Delivery:     decision.Delivery(m.GetDelivery()),
		Runtime:      runtimeState(m.GetRuntime()),
	}
	switch d := m.GetDeadline().(type) {
	case *retryv1.Facts_Remaining:
		f.Deadline, f.Remaining = decision.DeadlineKnown, d.Remaining.AsDuration()
	case *retryv1.Facts_NoDeadline:
		f.Deadline = decision.DeadlineNone
	}
	if m.MaxWait != nil {
		f.MaxWait = m.GetMaxWait().AsDuration()
		if f.MaxWait == 0 {
			f.MaxWait = -1 // to the rules 0 is no limit
		}
	}
	return f
}

// ending is how an attempt ended, and why it is read so.
type ending struct {
	evidence   decision.Evidence
	status     int
	permanent  decision.Permanent
	retryAfter time.Duration
	why        string
}

func endingOf(m *retryv1.Ending, now func() time.Time) ending {
	switch m := m.GetEnding().(type) {
	case *retryv1.Ending_Observation:
		return observed(m.Observation, now)
	case *retryv1.Ending_Envoy:
		return envoyReplied(m.Envoy, now)
	case *retryv1.Ending_Http:
		return ending{
			evidence:   decision.ResponseReceived,
			status:     int(m.Http.GetStatus()),
			retryAfter: retryAfter(m.Http.GetHeaders(), now),
			why:        "the upstream's final answer arrived",
		}
	}
	return ending{evidence: decision.SentNoResponse, why: "nothing is known of how the attempt ended"}
}

// cause says what was seen, for people.
func cause(m *retryv1.Ending) string {
	switch m := m.GetEnding().(type) {
	case *retryv1.Ending_Observation:
		if reach, ok := m.Observation.GetReach().(*retryv1.Observation_Stage); ok {
			return reach.Stage.String()
		}
	case *retryv1.Ending_Envoy:
		return m.Envoy.GetDetails()
	case *retryv1.Ending_Http:
		return "status " + strconv.Itoa(int(m.Http.GetStatus()))
	}
	return ""
}

func observed(o *retryv1.Observation, now func() time.Time) ending {
	e := ending{
		status:    int(o.GetStatus()),
		permanent: decision.Permanent(o.GetPermanent()),
	}
	if lines := o.GetRetryAfter(); len(lines) > 0 {
		e.retryAfter = decision.ParseRetryAfter(lines, o.GetDate(), now())
	}
	switch reach := o.GetReach().(type) {
	case *retryv1.Observation_Evidence:
		e.evidence = decision.Evidence(reach.Evidence)
		e.why = "this is what was observed"
		if e.evidence == decision.EvidenceUnknown {
			e.why = "nothing is known of how far the attempt got"
		}
	case *retryv1.Observation_Stage:
		e.evidence = decision.Stage(reach.Stage).Evidence()
		e.why = stageWhy[e.evidence]
		if reach.Stage == retryv1.Stage_STAGE_UNSPECIFIED {
			e.why = "a failure whose stage is not known proves nothing"
		}
	default:
		e.why = "nothing is known of how far the attempt got"
	}
	return e
}

var stageWhy = map[decision.Evidence]string{
	decision.NotSent:         "at this stage the server cannot have received the request",
	decision.SentNoResponse:  "at this stage some or all of the request was written, and no final header had arrived",
	decision.PartialResponse: "at this stage final headers and part of the body had arrived",
}

// envoyReplied takes the status for the upstream's own only where Envoy says that the upstream answered.
func envoyReplied(r *retryv1.EnvoyReply, now func() time.Time) ending {
	s := evidence.Symptom{Details: r.GetDetails(), Transport: r.GetTransportFailureReason(), WireBytesSent: -1, Tries: -1}
	if r.WireBytesSent != nil {
		s.WireBytesSent = int64(r.GetWireBytesSent())
	}
	if r.UpstreamAttemptCount != nil {
		s.Tries = int64(r.GetUpstreamAttemptCount())
	}
	var e ending
	e.evidence, e.permanent, e.why = s.Classify()
	if e.evidence == decision.ResponseReceived {
		e.status = int(r.GetStatus())
		e.retryAfter = retryAfter(r.GetHeaders(), now)
	}
	return e
}

// retryAfter reads header lines; of several Date lines none is known to be the answer's own.
func retryAfter(headers []*retryv1.Header, now func() time.Time) time.Duration {
	var some [4]string // most answers have one line, and need no more than the stack
	lines, date, dates := some[:0], "", 0
	for _, h := range headers {
		switch {
		case strings.EqualFold(h.GetName(), "retry-after"):
			lines = append(lines, h.GetValue())
		case strings.EqualFold(h.GetName(), "date"):
			date = h.GetValue()
			dates++
		}
	}
	if len(lines) == 0 {
		return 0
	}
	if dates > 1 {
		date = ""
	}
	return decision.ParseRetryAfter(lines, date, now())
}

func bodyOf(m *retryv1.Body) decision.Body {
	b := decision.Body{
		Kind:     decision.BodyKind(m.GetKind()),
		Declared: decision.Replayability(m.GetDeclared()),
	}
	for _, part := range m.GetParts() {
		b.Parts = append(b.Parts, bodyOf(part))
	}
	return b
}
