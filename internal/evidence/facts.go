package evidence

import (
	"strconv"
	"strings"
	"time"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// FromFacts reads the answer that the inner hop's judge is shown: the fact headers and the answer's
// own. key is the value of Envoy's attribute request.headers[KEY], which joins several lines by a
// comma; the fact header shows only the first, so the two are equal exactly when there is one line.
func FromFacts(answer Headers, key string) Attempt {
	a := unknownAttempt(answer)
	line, ok := answer.one(factsHeader)
	if !ok {
		return a
	}
	f, ok := parseFacts(line)
	if !ok {
		return a
	}
	details, ok := answer.one(factDetails)
	if !ok {
		return a
	}
	a.Known, a.LocalReply = true, place(details).local()
	a.Details, a.Transport = details, answer.value(factTransport)
	a.Flags, a.Protocol, a.Host = f.flags, f.protocol, f.host
	a.ID, a.RequestID = f.id, answer.value(factRequestID)
	a.Number = f.attempt
	a.Method, a.Path = answer.value(factMethod), answer.value(factPath)
	a.Operation, a.Cluster = f.operation, f.cluster
	if first := answer.value(factKey); len(first) < factKeyLimit && first == key && decision.ValidKey(key) {
		a.Key = key
	}
	a.Override = answer.Has(factOverride)
	a.Redirected = f.redirected
	a.EarlyData = decision.EarlyDataNotSent
	if answer.Has(factEarlyData) {
		a.EarlyData = decision.EarlyDataSent
	}
	a.BodyReceived = f.received
	if answer.Has(factLength) {
		if a.BodyAnnounced = parseCount(answer.value(factLength)); a.BodyAnnounced < 0 {
			a.BodyReceived = -1 // a length that cannot be read may be any
		}
	}
	a.Deadline, a.Remaining = f.deadline()

	evidence, permanent := prove(a.Details, a.Transport, f.counters)
	if answer.value(factCredential) == credentialWaits && f.uncredentialed(details) {
		evidence, permanent = decision.NotSent, decision.RejectedByFilter
	}
	if f.redirected && evidence == decision.NotSent {
		// The counters are of the last request; the one before it was executed.
		evidence, permanent = decision.SentNoResponse, decision.PermanentNone
	}
	a.Evidence, a.Permanent = evidence, permanent
	return a
}

// facts is the one header of names and numbers, in the order in which Envoy writes them.
type facts struct {
	flags string
	counters
	received, duration int64
	upload             string // how long the request took to arrive; empty while it has not arrived whole
	protocol           string
	redirected         bool // or the id is missing: see Attempt.Redirected
	id                 string
	attempt            int
	remaining          string
	host               string
	operation          string
	cluster            string
}

// parseFacts reads "v1 name=value ..." strictly: every field, in its order, once. An absent value is
// empty. The cluster is last and may contain anything.
func parseFacts(line string) (facts, bool) {
	var f facts
	rest, ok := strings.CutPrefix(line, factsVersion+" ")
	if !ok {
		return f, false
	}
	field := func(name string) string {
		if !ok {
			return ""
		}
		var value string
		if rest, ok = strings.CutPrefix(rest, name+"="); ok {
			value, rest, ok = strings.Cut(rest, " ")
		}
		return value
	}
	f.flags = field("flags")
	f.wireBytesSent = parseCount(field("sent"))
	f.tries = parseCount(field("tries"))
	f.received = parseCount(field("received"))
	f.duration = parseCount(field("duration"))
	f.upload = present(field("upload"))
	f.protocol = field("protocol")
	f.redirected = field("redirected") != ""
	f.id = present(field("id"))
	f.redirected = f.redirected || f.id == ""
	if attempt := parseCount(field("attempt")); attempt > 0 && attempt < 1<<20 {
		f.attempt = int(attempt)
	}
	f.remaining = field("remaining")
	f.host = field("host")
	f.operation = field("operation")
	if !ok {
		return facts{}, false
	}
	if f.cluster, ok = strings.CutPrefix(rest, "cluster="); !ok {
		return facts{}, false
	}
	return f, true
}

// deadline is what router A's timeout leaves. It says what was left when it sent the attempt; its
// clock runs only once the upload is complete. "-" is the head's word for no timeout.
func (f facts) deadline() (decision.DeadlineState, time.Duration) {
	if f.remaining == "-" {
		return decision.DeadlineNone, 0
	}
	remaining := parseCount(f.remaining)
	if remaining < 0 || f.duration < 0 || remaining > 1<<40 {
		return decision.DeadlineUnknown, 0
	}
	if f.upload != "" {
		upload := parseCount(f.upload)
		if upload < 0 {
			return decision.DeadlineUnknown, 0
		}
		remaining -= max(f.duration-upload, 0)
	}
	return decision.DeadlineKnown, time.Duration(max(remaining, 0)) * time.Millisecond
}

// present is what the head copied of a header; "-" stands for one that was not there.
func present(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// parseCount reads a decimal number as Envoy writes it, without sign and without zeros in front, or
// returns -1.
func parseCount(s string) int64 {
	if s == "" || s[0] < '0' || s[0] > '9' || s[0] == '0' && s != "0" {
		return -1
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// readAnswer reads what the answer says of itself.
func (a *Attempt) readAnswer(answer Headers) {
	if status := parseCount(answer.value(headerStatus)); status > 0 && status < 1000 {
		a.Status = int(status)
	}
	a.RetryAfter = answer.Values(headerRetryAfter)
	a.Date = answer.value(headerDate)
	a.GRPC = answer.Has(headerGRPCStatus) ||
		strings.HasPrefix(answer.value(headerContentType), "application/grpc")
}
