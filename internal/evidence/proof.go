package evidence

import (
	"strings"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// counters are the numbers that prove NOT_SENT. A negative number means that Envoy did not say.
type counters struct {
	wireBytesSent int64
	tries         int64
}

// prove says what the details and the counters prove. NOT_SENT needs values that are present, never
// one that is missing: 0 bytes alone is no proof (a cache that asked the upstream shows 0 bytes and 0
// tries), and after a second try the counters are of several tries at once.
func prove(details, transport string, c counters) (decision.Evidence, decision.Permanent) {
	p := place(details)
	switch p.kind {
	case placedAnswer:
		return decision.ResponseReceived, decision.PermanentNone
	case placedRefusedStream:
		if c.tries == 1 {
			return decision.NotSent, decision.PermanentNone
		}
	case placedAttempt:
		if c.wireBytesSent == 0 && c.tries == 1 {
			return decision.NotSent, certificateFailure(transport)
		}
	case placedRefusal:
		if c.wireBytesSent == 0 && c.tries == 0 {
			return decision.NotSent, p.category
		}
	}
	return decision.SentNoResponse, decision.PermanentNone
}

// certificateFailure reads Envoy's transport failure text: a server certificate that does not verify
// now will not verify in a moment.
func certificateFailure(transport string) decision.Permanent {
	if strings.Contains(transport, "CERTIFICATE_VERIFY_FAILED") {
		return decision.Certificate
	}
	return decision.PermanentNone
}

// uncredentialed says that the details are of an external-processing filter that has ended the request
// before router B tried. Where the request was still waiting for its credential, this was the credential
// filter, which stands alone between the two marks, and nothing was sent. Without that mark it may have
// been any filter, also one that has seen the answer of a cache.
func (c counters) uncredentialed(details string) bool {
	return place(details).kind == placedOwn && c.wireBytesSent == 0 && c.tries == 0
}
