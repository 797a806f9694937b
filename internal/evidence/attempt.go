package evidence

import (
	"time"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// Attempt is what is known of one attempt that has ended, and of its request. The zero value knows
// nothing; every field's zero value is the safe reading.
type Attempt struct {
	// Known says that Envoy's fact headers were there, whole, under the version that this program
	// reads. Without them nothing below is known but Status and what the answer itself says.
	Known bool

	Evidence  decision.Evidence
	Permanent decision.Permanent
	// LocalReply says that Envoy is known to have made the answer itself.
	LocalReply bool
	// Status is the answer's status code; only with RESPONSE_RECEIVED is it the upstream's.
	Status int
	// Details, Flags, Transport, Protocol and Host are Envoy's words, for people.
	Details, Flags, Transport, Protocol, Host string

	// ID is the request's own id, the same on all its attempts and not to be chosen by a client.
	ID string
	// RequestID is x-request-id, which a client may have chosen.
	RequestID string
	// Number counts this attempt from 1; 0 is not known.
	Number int

	Method string
	// Path is the path as it was asked for, query included, before a route rewrote it; cut at
	// 1024 bytes.
	Path      string
	Operation string // the route's metadata
	Cluster   string // the upstream
	// Key is the one valid idempotency key, or empty.
	Key string
	// Override: a method-override header was there, so the method may not be what was executed.
	Override bool
	// Redirected: Envoy followed a redirect inside this attempt, or one of its filters sent a request of its
	// own for an error page (custom_response), so the head saw another request. Such a filter leaves no mark;
	// but the route of the first request has taken the request's own id away, and the head found none.
	Redirected bool
	EarlyData  decision.EarlyData

	// BodyReceived counts the request body's bytes that have arrived, -1 when not known.
	BodyReceived int64
	// BodyAnnounced is the Content-Length, -1 when there was none.
	BodyAnnounced int64

	Deadline  decision.DeadlineState
	Remaining time.Duration

	// RetryAfter and Date are the answer's header lines.
	RetryAfter []string
	Date       string
	// GRPC: the answer is a gRPC one, so its body is not ours to write.
	GRPC bool
}

// Body says whether router A still has the request's body: no more than its buffer limit has arrived
// and no larger length was announced. An upload that is not complete is no obstacle: what was
// buffered is sent again, the rest follows. A limit below 0 is not known.
func (a Attempt) Body(replayLimit int64) decision.Replayability {
	switch {
	case replayLimit < 0, a.BodyReceived < 0:
		return decision.ReplayabilityUnknown
	case a.BodyReceived > replayLimit, a.BodyAnnounced > replayLimit:
		return decision.OneShot
	}
	return decision.Replayable
}

// unknownAttempt is what an answer without facts tells.
func unknownAttempt(answer Headers) Attempt {
	a := Attempt{BodyReceived: -1, BodyAnnounced: -1}
	a.readAnswer(answer)
	return a
}
