package evidence

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// A second reading, in regular expressions, of when NOT_SENT is proven. The fuzz targets hold the
// parsers to it.
const (
	word    = `[^ ]*`
	ownIDOf = `(?:[^ -][^ ]*|-[^ ]+)` // present, and not the head's word for none
	factsOf = `v1 flags=` + word + ` sent=SENT tries=TRIES received=` + word + ` duration=` + word + ` upload=` + word +
		` protocol=` + word + ` redirected= id=` + ownIDOf + ` attempt=` + word + ` remaining=` + word + ` host=` + word +
		` operation=` + word + ` cluster=.*`
	attemptDetails = `upstream_reset_before_response_started\{.*\}|response_timeout|no_healthy_upstream`
	refusedStream  = `upstream_reset_before_response_started\{remote_refused_stream_reset\}`
	refusalDetails = `cluster_not_found|route_not_found|route_configuration_not_found|filter_chain_not_found|direct_response|` +
		`admin_filter_response|absolute_path_rejected|invalid_path|low_version|missing_host_header|missing_path_rejected|` +
		`path_normalization_failed|rejecting_because_detection_failed|request_headers_failed_strict_check|` +
		`request_payload_too_large|upgrade_failed|rbac_access_denied_matched_policy\[.*\]|ext_authz_denied|failed_to_inject_credential|` +
		`jwt_authn_access_denied\{.*\}|lua_response|drop_overload|ext_authz_error|fault_filter_abort|local_rate_limited|` +
		`maintenance_mode|overload|request_rate_limited|unconditional_drop_overload`
)

var compiled sync.Map // pattern -> *regexp.Regexp

func matches(pattern, s string) bool {
	re, ok := compiled.Load(pattern)
	if !ok {
		re, _ = compiled.LoadOrStore(pattern, regexp.MustCompile(`(?s)\A(?:`+pattern+`)\z`))
	}
	return re.(*regexp.Regexp).MatchString(s)
}

func factsWith(sent, tries string) string {
	return strings.NewReplacer("SENT", sent, "TRIES", tries).Replace(factsOf)
}

func single(h Headers, key string) string {
	if v := h.Values(key); len(v) == 1 {
		return v[0]
	}
	return ""
}

// provenByFacts and provenByOuter are the second reading.
func provenByFacts(h Headers) bool {
	line, details := single(h, factsHeader), single(h, factDetails)
	if len(h.Values(factDetails)) != 1 {
		return false
	}
	return matches(refusedStream, details) && matches(factsWith(word, "1"), line) ||
		matches(attemptDetails, details) && !matches(refusedStream, details) && matches(factsWith("0", "1"), line) ||
		matches(refusalDetails, details) && matches(factsWith("0", "0"), line) ||
		single(h, factCredential) == "pending" && matches(`ext_proc_.*`, details) && matches(factsWith("0", "0"), line)
}

func provenByOuter(h Headers) bool {
	line, details := single(h, outerHeader), single(h, outerDetails)
	if matches(`v1 flags=`+word+` sent=0 tries=0 id=`+word, line) && matches(refusalDetails, details) {
		return true
	}
	own := regexp.MustCompile(`\Av1 flags=[^ ]* sent=[^ ]* tries=[^ ]* id=([^ ]*)\z`).FindStringSubmatch(line)
	inner := regexp.MustCompile(` id=([^ ]*)`).FindStringSubmatch(single(h, factsHeader))
	return details == detailsViaUpstream && own != nil && inner != nil && present(inner[1]) == own[1] && provenByFacts(h)
}

// checkAttempt holds an attempt to what every reading must keep.
func checkAttempt(t *testing.T, a Attempt, proven bool) {
	t.Helper()
	if (a.Evidence == decision.NotSent) != proven {
		t.Errorf("%v, proven: %v", a.Evidence, proven)
	}
	if a.Permanent != decision.PermanentNone && !proven {
		t.Errorf("permanent=%v without proof", a.Permanent)
	}
	if a.Number < 0 || a.BodyReceived < -1 || a.BodyAnnounced < -1 || a.Remaining < 0 || a.Status < 0 || a.Status > 999 {
		t.Errorf("out of range: %+v", a)
	}
	if a.Key != "" && !decision.ValidKey(a.Key) {
		t.Errorf("key %q", a.Key)
	}
	if a.Evidence == decision.ResponseReceived && a.LocalReply {
		t.Error("Envoy's own reply is read as the upstream's answer")
	}
}

func FuzzFacts(f *testing.F) {
	for _, line := range []string{notSentLine, strings.Replace(notSentLine, "sent=0", "sent=9", 1), strings.Replace(notSentLine, "tries=1", "tries=0", 1), strings.Replace(notSentLine, "redirected=", "redirected=h", 1), ""} {
		for _, details := range []string{notSentDetails, detailsRefusedStream, "overload", DetailsNoCredential, detailsViaUpstream, "rbac_access_denied_matched_policy[p]", ""} {
			f.Add(line, details, "CERTIFICATE_VERIFY_FAILED", "/pay", "k1", "k1", "5", "429", "", "pending")
		}
	}
	for i, chosen := range hostile {
		f.Add(notSentLine, chosen, chosen, chosen, chosen, chosen, chosen, chosen, []string{factsHeader, factDetails, factKey, factCredential}[i%4], []string{"pending", "set", chosen}[i%3])
	}
	f.Fuzz(func(t *testing.T, line, details, transport, path, key, attribute, length, status, twice, credential string) {
		h := headers(":status", status, factsHeader, line, factDetails, details, factTransport, transport, factMethod, "POST", factPath, path, factKey, key, factLength, length, twice, line, factCredential, credential)
		a := FromFacts(h, attribute)
		checkAttempt(t, a, provenByFacts(h))
		if a.Known != (len(h.Values(factDetails)) == 1 && matches(strings.NewReplacer("redirected=", "redirected="+word, ownIDOf, word).Replace(factsWith(word, word)), single(h, factsHeader))) {
			t.Errorf("known: %v", a.Known)
		}
		if a.Key != "" && !(slices.Equal(h.Values(factKey), []string{attribute}) && a.Key == attribute) {
			t.Errorf("key %q of header %q and attribute %q", a.Key, h.Values(factKey), attribute)
		}
		if (a.Evidence == decision.ResponseReceived) != (a.Known && details == detailsViaUpstream) {
			t.Errorf("%v by details %q", a.Evidence, details)
		}
	})
}

func FuzzOuter(f *testing.F) {
	for _, details := range []string{"overload", detailsViaUpstream, "response_timeout", "rbac_access_denied_matched_policy[p]"} {
		f.Add(outerLine, details, notSentLine, notSentDetails, "/pay", "")
		f.Add("v1 flags=- sent=9 tries=1 id=i1", details, notSentLine, "overload", "/pay", outerDetails)
		f.Add("v1 flags=- sent=9 tries=1 id=", details, strings.Replace(notSentLine, "id=i1", "id=-", 1), notSentDetails, "/pay", "")
	}
	for _, chosen := range hostile {
		f.Add(chosen, chosen, chosen, chosen, chosen, chosen)
	}
	f.Fuzz(func(t *testing.T, line, details, inner, innerDetails, path, twice string) {
		h := headers(":status", "503", outerHeader, line, outerDetails, details, outerMethod, "POST", outerPath, path, factsHeader, inner, factDetails, innerDetails, twice, line)
		checkAttempt(t, FromOuter(h, ""), provenByOuter(h))
	})
}

// FuzzAccessLog feeds entries as they come over the wire.
func FuzzAccessLog(f *testing.F) {
	add := func(entry *accesslogv3.HTTPAccessLogEntry) {
		data, err := proto.Marshal(entry)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	add(&accesslogv3.HTTPAccessLogEntry{
		CommonProperties: &accesslogv3.AccessLogCommon{AccessLogType: accesslogv3.AccessLogType_DownstreamEnd, UpstreamCluster: "app", UpstreamRemoteAddress: &corev3.Address{}, FilterStateObjects: headObject("id=i1 attempt=1 remaining=-")},
		Response:         &accesslogv3.HTTPResponseProperties{ResponseCodeDetails: detailsResetAfter + "x}"},
	})
	add(&accesslogv3.HTTPAccessLogEntry{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var entry accesslogv3.HTTPAccessLogEntry
		if proto.Unmarshal(data, &entry) != nil {
			return
		}
		e := FromAccessLog(&entry)
		common := entry.GetCommonProperties()
		if e.First {
			var head wrapperspb.StringValue
			if err := common.GetFilterStateObjects()["verdict.request"].UnmarshalTo(&head); err != nil ||
				!matches(`id=[^ ]+ attempt=1 remaining=[^ ]*`, head.GetValue()) || strings.HasPrefix(head.GetValue(), "id=- ") {
				t.Errorf("counts as a first attempt: %q, %v", head.GetValue(), err)
			}
			if common.GetUpstreamCluster() == "" || common.GetUpstreamRemoteAddress() == nil {
				t.Error("counts without a host")
			}
		}
		if (e.First || e.CutOff) && common.GetAccessLogType() != accesslogv3.AccessLogType_DownstreamEnd {
			t.Errorf("counts at %v", common.GetAccessLogType())
		}
		if e.CutOff && !strings.HasPrefix(entry.GetResponse().GetResponseCodeDetails(), detailsResetAfter) {
			t.Error("cut off")
		}
	})
}

// FuzzExchange feeds a plain stream's headers and attributes as they come over the wire.
func FuzzExchange(f *testing.F) {
	wire := func(m proto.Message) []byte {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	request := wire(&corev3.HeaderMap{Headers: headers(":method", "POST", ":path", "/a", "idempotency-key", "k1").list})
	fields, err := structpb.NewStruct(map[string]any{attributeDetails: detailsViaUpstream, attributeAttempts: 1.0, attributeCluster: "app"})
	if err != nil {
		f.Fatal(err)
	}
	for _, details := range []string{detailsViaUpstream, notSentDetails, detailsRefusedStream, "overload"} {
		fields.Fields[attributeDetails] = structpb.NewStringValue(details)
		f.Add(request, wire(fields), wire(&corev3.HeaderMap{Headers: headers(":status", "503").list}), true)
	}
	f.Add(request, []byte(nil), wire(&corev3.HeaderMap{Headers: headers(":status", "200", "grpc-status", "14").list}), false)
	f.Fuzz(func(t *testing.T, request, attributes, answer []byte, end bool) {
		var requestHeaders, answerHeaders corev3.HeaderMap
		var fields structpb.Struct
		if proto.Unmarshal(request, &requestHeaders) != nil || proto.Unmarshal(attributes, &fields) != nil || proto.Unmarshal(answer, &answerHeaders) != nil {
			return
		}
		var e Exchange
		e.Request(NewHeaders(&requestHeaders), end, "idempotency-key")
		e.Attributes(map[string]*structpb.Struct{attributesBundle: &fields})
		h := NewHeaders(&answerHeaders)
		a := e.Answer(h)
		checkAttempt(t, a, false)
		if a.Evidence == decision.ResponseReceived && fields.Fields[attributeDetails].GetStringValue() != detailsViaUpstream && !matches(`[123][0-9][0-9]`, single(h, ":status")) {
			t.Errorf("an answer of %q is the upstream's", single(h, ":status"))
		}
		if !end && a.Body(math.MaxInt64) == decision.Replayable {
			t.Error("a body that was not seen can be sent again")
		}
	})
}
