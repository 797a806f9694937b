package evidence

import (
	"fmt"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// Symptom is what somebody has read off Envoy's formatters or its access log: of one attempt that one
// router ended, with no judge beside it.
type Symptom struct {
	Details   string // %RESPONSE_CODE_DETAILS%
	Transport string // %UPSTREAM_TRANSPORT_FAILURE_REASON%
	// WireBytesSent and Tries are %UPSTREAM_WIRE_BYTES_SENT% and %UPSTREAM_REQUEST_ATTEMPT_COUNT%; below
	// 0 they are not known, and prove nothing.
	WireBytesSent, Tries int64
}

// Classify says what the symptom proves, and why, in words for people. It differs from what the judge
// reads in one thing: an answer that was cut off was the upstream's (PARTIAL_RESPONSE).
func (s Symptom) Classify() (decision.Evidence, decision.Permanent, string) {
	if place(s.Details).kind == placedCut {
		return decision.PartialResponse, decision.PermanentNone, "the upstream's answer had begun and was cut off"
	}
	e, permanent := prove(s.Details, s.Transport, counters{s.WireBytesSent, s.Tries})
	return e, permanent, s.why(e)
}

func (s Symptom) why(e decision.Evidence) string {
	proven := e == decision.NotSent
	counted := fmt.Sprintf("bytes written: %s, tries: %s", count(s.WireBytesSent), count(s.Tries))
	switch place(s.Details).kind {
	case placedAnswer:
		return "the upstream itself answered"
	case placedSent:
		return "this can come at any time, so it proves nothing"
	case placedOwn:
		return "an external-processing filter ended the request, which says nothing of the upstream"
	case placedRefusedStream:
		if proven {
			return "the upstream said that it has not processed the stream, at the only try"
		}
		return "the upstream refused a stream, but only with exactly 1 try is nothing else sent: " + counted
	case placedAttempt:
		if proven {
			return "the only try ended before a byte was written"
		}
		return "proof takes 0 bytes written in exactly 1 try: " + counted
	case placedRefusal:
		if proven {
			return "Envoy refused the request on its way in, without a byte written nor a try made"
		}
		return "proof takes 0 bytes written in exactly 0 tries: " + counted
	}
	if s.Details == "" {
		return "without Envoy's details nothing is proven"
	}
	return "these details are not known, so they prove nothing"
}

func count(n int64) string {
	if n < 0 {
		return "unknown"
	}
	return fmt.Sprint(n)
}
