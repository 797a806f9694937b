package evidence

import (
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Ended is what the access log of the inner hop says of an attempt's end.
type Ended struct {
	// Upstream is the cluster, "" when none was chosen.
	Upstream string
	// First: attempt 1 of its request, with an upstream host: it funds the retry budget. A refused
	// connection counts; a reply for which no host was chosen does not.
	First bool
	// CutOff: the upstream's answer was cut off after its headers.
	CutOff bool
	// ID, Details, Method and Path are for people. The path may have been rewritten.
	ID, Details, Method, Path string
}

// FromAccessLog reads one entry. Which attempt it is comes from the head's copy: an inner route that
// counts attempts itself would overwrite the header.
func FromAccessLog(entry *accesslogv3.HTTPAccessLogEntry) Ended {
	common := entry.GetCommonProperties()
	e := Ended{
		Upstream: common.GetUpstreamCluster(),
		Details:  entry.GetResponse().GetResponseCodeDetails(),
		Method:   entry.GetRequest().GetRequestMethod().String(),
		Path:     entry.GetRequest().GetPath(),
	}
	e.CutOff = place(e.Details).kind == placedCut
	var head wrapperspb.StringValue
	if object := common.GetFilterStateObjects()[filterStateHead]; object == nil || object.UnmarshalTo(&head) != nil {
		return e
	}
	fields := strings.Split(head.GetValue(), " ")
	if len(fields) != 3 {
		return e
	}
	id, idOK := strings.CutPrefix(fields[0], "id=")
	attempt, attemptOK := strings.CutPrefix(fields[1], "attempt=")
	if !idOK || !attemptOK {
		return e
	}
	e.ID = id
	e.First = parseCount(attempt) == 1 && common.GetUpstreamRemoteAddress() != nil && e.Upstream != ""
	return e
}
