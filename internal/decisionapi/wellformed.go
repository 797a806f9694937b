package decisionapi

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// wellFormed is the schema's rules for Facts written out, because evaluating them costs as much as all
// the rest of a call. What it refuses is judged, and named, by the schema's rules themselves; a fuzz test
// holds that the two agree. The body was bounded before.
func wellFormed(f *retryv1.Facts) bool {
	return f != nil &&
		len(f.Upstream) <= 256 &&
		callOK(f.Call) &&
		bodyOK(f.Body) &&
		defined(f.EarlyData, retryv1.EarlyData_EARLY_DATA_SENT) &&
		f.Attempt <= 1000000 &&
		(f.Earlier == nil ||
			defined(f.Earlier.Execution, retryv1.Execution_EXECUTION_EXECUTED) &&
				defined(f.Earlier.Certainty, retryv1.Certainty_CERTAINTY_UNCERTAIN)) &&
		between(f.PreviousWait, 0, 24*time.Hour) &&
		endingOK(f.Ending) &&
		defined(f.Delivery, retryv1.Delivery_DELIVERY_DELIVERED) &&
		defined(f.Credential, retryv1.Credential_CREDENTIAL_REFRESHED) &&
		between(f.GetRemaining(), -time.Hour, 24*time.Hour) &&
		between(f.MaxWait, 0, 24*time.Hour) &&
		defined(f.Runtime, retryv1.Runtime_RUNTIME_DRAINING)
}

func callOK(c *retryv1.Call) bool {
	return c == nil ||
		len(c.Method) <= 64 &&
			len(c.Path) <= 8192 &&
			len(c.RouteOperation) <= 128 &&
			defined(c.Idempotency, retryv1.Idempotency_IDEMPOTENCY_SAFE) &&
			linesOK(c.IdempotencyKeys)
}

func bodyOK(b *retryv1.Body) bool {
	if b == nil {
		return true
	}
	if !defined(b.Kind, retryv1.BodyKind_BODY_KIND_MULTIPART) ||
		!defined(b.Declared, retryv1.Replayability_REPLAYABILITY_REPLAYABLE) || len(b.Parts) > 100 {
		return false
	}
	for _, part := range b.Parts {
		if !bodyOK(part) {
			return false
		}
	}
	return true
}

func endingOK(m *retryv1.Ending) bool {
	switch m := m.GetEnding().(type) {
	case *retryv1.Ending_Observation:
		o := m.Observation
		return defined(o.GetEvidence(), retryv1.Evidence_EVIDENCE_PARTIAL_RESPONSE) &&
			defined(o.GetStage(), retryv1.Stage_STAGE_RESPONSE_BODY) &&
			o.GetStatus() <= 999 &&
			defined(o.GetPermanent(), retryv1.PermanentCategory_PERMANENT_CATEGORY_REQUEST_INVALID) &&
			linesOK(o.GetRetryAfter()) &&
			len(o.GetDate()) <= 1024
	case *retryv1.Ending_Envoy:
		e := m.Envoy
		return len(e.GetDetails()) <= 1024 &&
			int64(e.GetWireBytesSent()) >= 0 &&
			int64(e.GetUpstreamAttemptCount()) >= 0 &&
			len(e.GetTransportFailureReason()) <= 1024 &&
			e.GetStatus() <= 999 &&
			headersOK(e.GetHeaders())
	case *retryv1.Ending_Http:
		return m.Http.GetStatus() <= 999 && headersOK(m.Http.GetHeaders())
	}
	return true
}

func linesOK(lines []string) bool {
	if len(lines) > 8 {
		return false
	}
	for _, line := range lines {
		if len(line) > 1024 {
			return false
		}
	}
	return true
}

func headersOK(headers []*retryv1.Header) bool {
	if len(headers) > 200 {
		return false
	}
	for _, h := range headers {
		if len(h.GetName()) > 256 || len(h.GetValue()) > 8192 {
			return false
		}
	}
	return true
}

// defined: the API's enums have no gaps.
func defined[E ~int32](e, last E) bool { return e >= 0 && e <= last }

func between(d *durationpb.Duration, least, most time.Duration) bool {
	if d == nil {
		return true
	}
	return d.IsValid() && d.Seconds >= -1e9 && d.Seconds <= 1e9 && // far from wrapping
		d.AsDuration() >= least && d.AsDuration() <= most
}

// printable: bytes that request_id may have.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
