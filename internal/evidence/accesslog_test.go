package evidence

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func object(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ended is the entry of a first attempt that had an upstream host, changed by change.
func ended(t *testing.T, change func(*accesslogv3.AccessLogCommon, *accesslogv3.HTTPResponseProperties)) *accesslogv3.HTTPAccessLogEntry {
	t.Helper()
	common := &accesslogv3.AccessLogCommon{
		AccessLogType:         accesslogv3.AccessLogType_DownstreamEnd,
		UpstreamCluster:       "app",
		UpstreamRemoteAddress: &corev3.Address{},
		FilterStateObjects:    headObject("id=i1 attempt=1 remaining=10000"),
	}
	response := &accesslogv3.HTTPResponseProperties{ResponseCodeDetails: detailsViaUpstream}
	if change != nil {
		change(common, response)
	}
	return &accesslogv3.HTTPAccessLogEntry{
		CommonProperties: common,
		Request:          &accesslogv3.HTTPRequestProperties{RequestMethod: corev3.RequestMethod_POST, Path: "/pay"},
		Response:         response,
	}
}

func head(text string) func(*accesslogv3.AccessLogCommon, *accesslogv3.HTTPResponseProperties) {
	return func(c *accesslogv3.AccessLogCommon, _ *accesslogv3.HTTPResponseProperties) {
		c.FilterStateObjects = headObject(text)
	}
}

func TestAccessLog(t *testing.T) {
	want := Ended{Upstream: "app", First: true, ID: "i1", Details: detailsViaUpstream, Method: "POST", Path: "/pay"}
	if got := FromAccessLog(ended(t, nil)); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestFirstAttempts: only what is certainly the end of a first attempt with an upstream host funds the
// retry budget.
func TestFirstAttempts(t *testing.T) {
	type common = *accesslogv3.AccessLogCommon
	type response = *accesslogv3.HTTPResponseProperties
	first := map[string]func(common, response){
		"no deadline": head("id=i1 attempt=1 remaining=-"),
		"connect refused": func(_ common, r response) {
			r.ResponseCodeDetails = notSentDetails
		},
		"cut off": func(_ common, r response) { r.ResponseCodeDetails = detailsResetAfter + "x}" },
	}
	not := map[string]func(common, response){
		"the second attempt":          head("id=i1 attempt=2 remaining=10000"),
		"no attempt":                  head("id=i1 attempt=- remaining=10000"),
		"attempt 0":                   head("id=i1 attempt=0 remaining=10000"),
		"attempt 01":                  head("id=i1 attempt=01 remaining=10000"),
		"attempt -1":                  head("id=i1 attempt=-1 remaining=10000"),
		"attempt beyond int64":        head("id=i1 attempt=18446744073709551617 remaining=10000"),
		"a redirect's second half":    head("id=- attempt=1 remaining=15000"),
		"no id":                       head("id= attempt=1 remaining=10000"),
		"a field more":                head("id=i1 attempt=1 remaining=10000 x"),
		"a field less":                head("id=i1 attempt=1"),
		"another order":               head("attempt=1 id=i1 remaining=10000"),
		"another name":                head("id=i1 attempt=1 left=10000"),
		"two blanks":                  head("id=i1  attempt=1 remaining=10000"),
		"an id with a blank":          head("id=i1 attempt=1 attempt=2 remaining=1"),
		"empty":                       head(""),
		"no cluster":                  func(c common, _ response) { c.UpstreamCluster = "" },
		"no host":                     func(c common, _ response) { c.UpstreamRemoteAddress = nil },
		"no filter state":             func(c common, _ response) { c.FilterStateObjects = nil },
		"another filter state":        func(c common, _ response) { c.FilterStateObjects = map[string]*anypb.Any{"verdict.path": {}} },
		"a nil object":                func(c common, _ response) { c.FilterStateObjects[filterStateHead] = nil },
		"an object of another type":   func(c common, _ response) { c.FilterStateObjects[filterStateHead] = object(t, wrapperspb.Int64(1)) },
		"an object that is garbage":   func(c common, _ response) { c.FilterStateObjects[filterStateHead].Value = []byte{0xff} },
		"a type that does not exist":  func(c common, _ response) { c.FilterStateObjects[filterStateHead].TypeUrl = "x/y" },
		"the start of a request":      func(c common, _ response) { c.AccessLogType = accesslogv3.AccessLogType_DownstreamStart },
		"the middle of a request":     func(c common, _ response) { c.AccessLogType = accesslogv3.AccessLogType_DownstreamPeriodic },
		"the router's own log":        func(c common, _ response) { c.AccessLogType = accesslogv3.AccessLogType_UpstreamEnd },
		"a type that is not told":     func(c common, _ response) { c.AccessLogType = accesslogv3.AccessLogType_NotSet },
		"a type that nobody has seen": func(c common, _ response) { c.AccessLogType = 99 },
	}
	for name, change := range first {
		if !FromAccessLog(ended(t, change)).First {
			t.Errorf("%s does not count", name)
		}
	}
	for name, change := range not {
		if FromAccessLog(ended(t, change)).First {
			t.Errorf("%s counts", name)
		}
	}
	for _, entry := range []*accesslogv3.HTTPAccessLogEntry{nil, {}, {CommonProperties: &accesslogv3.AccessLogCommon{}}} {
		if got := FromAccessLog(entry); got != (Ended{}) {
			t.Errorf("%v: %+v", entry, got)
		}
	}
}

func TestCutOff(t *testing.T) {
	for details, want := range map[string]bool{
		detailsResetAfter + "connection_termination}": true,
		detailsResetAfter + "protocol_error}":         true,
		detailsResetAfter:                             false,
		detailsResetBefore + "protocol_error}":        false,
		detailsViaUpstream:                            false,
		"http2.remote_reset":                          false,
		"":                                            false,
	} {
		entry := ended(t, func(c *accesslogv3.AccessLogCommon, r *accesslogv3.HTTPResponseProperties) {
			r.ResponseCodeDetails = details
			c.FilterStateObjects = nil
		})
		if got := FromAccessLog(entry); got.CutOff != want {
			t.Errorf("%s: cut off %v", details, got.CutOff)
		}
	}
}

func headObject(text string) map[string]*anypb.Any {
	a, err := anypb.New(wrapperspb.String(text))
	if err != nil {
		panic(err) // a string always encodes
	}
	return map[string]*anypb.Any{filterStateHead: a}
}
