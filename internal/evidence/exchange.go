package evidence

import (
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// Attributes of Envoy that this package reads. A hop's judge and finalizer are sent the first; a plain
// stream is read better with the others in its response_attributes.
const (
	attributeDetails  = "response.code_details"
	attributeAttempts = "upstream.request_attempt_count"
	attributeCluster  = "xds.cluster_name"
)

// KeyAttribute returns Envoy's attribute request.headers['KEY'], which joins several lines of the
// header by a comma; "" when there is none.
func KeyAttribute(attributes map[string]*structpb.Struct, keyHeader string) string {
	return attributes[attributesBundle].GetFields()["request.headers['"+keyHeader+"']"].GetStringValue()
}

// OverrideAttribute reports whether Envoy's attributes show a method-override header. The fact header
// shows the first line only, and an empty one would hide a second.
func OverrideAttribute(attributes map[string]*structpb.Struct) bool {
	fields := attributes[attributesBundle].GetFields()
	for _, name := range methodOverrides {
		if _, ok := fields["request.headers['"+name+"']"]; ok {
			return true
		}
	}
	return false
}

// Exchange gathers what a plain ext_proc stream tells of one request and its answer. No attribute of
// Envoy proves NOT_SENT by a value that is present, so a plain stream never has that evidence.
type Exchange struct {
	method, path string
	override     bool
	earlyData    decision.EarlyData
	key          string
	bodyless     bool
	details      string
	attempts     int
	cluster      string
}

// Attributes takes what Envoy sent with a message.
func (e *Exchange) Attributes(attributes map[string]*structpb.Struct) {
	fields := attributes[attributesBundle].GetFields()
	if v := fields[attributeDetails].GetStringValue(); v != "" {
		e.details = v
	}
	if v := fields[attributeCluster].GetStringValue(); v != "" {
		e.cluster = v
	}
	if n := fields[attributeAttempts].GetNumberValue(); n >= 1 && n < 1<<20 && n == float64(int(n)) {
		e.attempts = int(n)
	}
}

// Request takes the request headers; end says that no body follows.
func (e *Exchange) Request(h Headers, end bool, keyHeader string) {
	e.method, e.path = h.value(":method"), h.value(":path")
	e.bodyless = end
	for _, name := range methodOverrides {
		e.override = e.override || h.Has(name)
	}
	e.earlyData = decision.EarlyDataNotSent
	if h.Has("early-data") {
		e.earlyData = decision.EarlyDataSent
	}
	if lines := h.Values(keyHeader); decision.ValidKey(lines...) {
		e.key = lines[0]
	}
}

// Answer takes the response headers and returns the attempt as far as it is known.
func (e *Exchange) Answer(h Headers) Attempt {
	a := unknownAttempt(h)
	a.Known = e.method != ""
	a.Method, a.Path, a.Key = e.method, e.path, e.key
	a.Override, a.EarlyData = e.override, e.earlyData
	a.Number, a.Cluster = e.attempts, e.cluster
	if e.bodyless {
		a.BodyReceived = 0
	}
	// The deadline, and whether to wait at all, are the caller's own affair.
	a.Deadline = decision.DeadlineNone
	a.Details = e.details
	switch {
	case a.Status >= 100 && a.Status <= 399 && (!h.Has(headerGRPCStatus) || h.value(headerGRPCStatus) == "0"):
		a.Evidence = decision.ResponseReceived
	case e.details != "":
		a.Evidence, a.Permanent = prove(e.details, "", counters{wireBytesSent: -1, tries: -1})
	}
	return a
}
