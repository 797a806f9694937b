package evidence

import (
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Ended is what the access log of the inner hop says of an attempt's end.
type Ended struct {
	// Upstream is the cluster, "" when none was chosen or the attempt has not ended.
	Upstream string
	// First: attempt 1 of its request, with an upstream host: it funds the retry budget. A refused
	// connection counts; a reply for which no host was chosen does not. The second half of an attempt
	// that was redirected on its way does not either: the head finds no id any more.
	First bool
	// CutOff: the upstream's answer was cut off after its headers.
	CutOff bool
	// ID, Details, Method and Path are for people. The path may have been rewritten.
	ID, Details, Method, Path string
}

// FromAccessLog reads one entry. Envoy can be told to log a request at its start, in between, and by its
// router too: only the entry at the request's end counts, or an attempt would fund the budget twice.
// Which attempt it is comes from the head's copy: an inner route that counts attempts itself would
// overwrite the header.
func FromAccessLog(entry *accesslogv3.HTTPAccessLogEntry) Ended {
	common := entry.GetCommonProperties()
	if common.GetAccessLogType() != accesslogv3.AccessLogType_DownstreamEnd {
		return Ended{}
	}
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
	if !idOK || !attemptOK || !strings.HasPrefix(fields[2], "remaining=") {
		return e
	}
	e.ID = present(id)
	e.First = parseCount(attempt) == 1 && e.ID != "" && common.GetUpstreamRemoteAddress() != nil && e.Upstream != ""
	return e
}
