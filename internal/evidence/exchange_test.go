package evidence

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/verdictproxy/verdict/pkg/decision"
)

func attributes(t *testing.T, fields map[string]any) map[string]*structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*structpb.Struct{attributesBundle: s}
}

// TestExchange: what a plain stream tells. It never proves NOT_SENT, since an attribute that Envoy did
// not send looks like one that it would not.
func TestExchange(t *testing.T) {
	for _, test := range []struct {
		name       string
		attributes map[string]any
		answer     []string
		evidence   decision.Evidence
		local      bool
	}{
		{"nothing but a status", nil, []string{":status", "503"}, decision.EvidenceUnknown, false},
		{"a success needs no word of Envoy's", nil, []string{":status", "200"}, decision.ResponseReceived, false},
		{"a redirect", nil, []string{":status", "302"}, decision.ResponseReceived, false},
		{"a gRPC success in one header section", nil, []string{":status", "200", "grpc-status", "0"}, decision.ResponseReceived, false},
		{"a gRPC failure by nobody knows whom", nil, []string{":status", "200", "grpc-status", "14"}, decision.EvidenceUnknown, false},
		{"two gRPC statuses", nil, []string{":status", "200", "grpc-status", "0", "grpc-status", "0"}, decision.EvidenceUnknown, false},
		{"no status", nil, nil, decision.EvidenceUnknown, false},
		{"the upstream's", map[string]any{attributeDetails: detailsViaUpstream}, []string{":status", "503"}, decision.ResponseReceived, false},
		{"a reset", map[string]any{attributeDetails: detailsResetBefore + "connection_termination}"}, []string{":status", "503"}, decision.SentNoResponse, false},
		{"connect refused", map[string]any{attributeDetails: notSentDetails, attributeAttempts: 1.0}, []string{":status", "503"}, decision.SentNoResponse, false},
		{"refused stream", map[string]any{attributeDetails: detailsRefusedStream, attributeAttempts: 1.0}, []string{":status", "503"}, decision.SentNoResponse, false},
		{"a refusal", map[string]any{attributeDetails: "route_not_found"}, []string{":status", "404"}, decision.SentNoResponse, false},
	} {
		var e Exchange
		e.Attributes(attributes(t, test.attributes))
		e.Request(headers(":method", "POST", ":path", "/a"), true, "idempotency-key")
		a := e.Answer(headers(test.answer...))
		if a.Evidence != test.evidence || a.LocalReply != test.local || a.Permanent != decision.PermanentNone {
			t.Errorf("%s: %v, local=%v, permanent=%v", test.name, a.Evidence, a.LocalReply, a.Permanent)
		}
	}
}

func TestExchangeRequest(t *testing.T) {
	read := func(end bool, request ...string) Attempt {
		var e Exchange
		e.Request(headers(append([]string{":method", "POST", ":path", "/a?b"}, request...)...), end, "idempotency-key")
		return e.Answer(headers(":status", "503"))
	}
	a := read(true, "idempotency-key", "k1")
	if !a.Known || a.Method != "POST" || a.Path != "/a?b" || a.Key != "k1" || a.Override || a.EarlyData != decision.EarlyDataNotSent || a.Deadline != decision.DeadlineNone || a.Number != 0 {
		t.Errorf("%+v", a)
	}
	if a.Body(0) != decision.Replayable {
		t.Errorf("no body is %v", a.Body(0))
	}
	if a := read(false); a.Body(1<<40) != decision.ReplayabilityUnknown {
		t.Errorf("a body that was not seen is %v", a.Body(1<<40))
	}
	for _, lines := range [][]string{
		{"idempotency-key", "k1", "idempotency-key", "k2"}, {"idempotency-key", "k1,k2"}, {"idempotency-key", ""},
		{"idempotency-key", " k"}, {"idempotency-key", strings.Repeat("k", 256)}, {"other-key", "k1"},
	} {
		if a := read(true, lines...); a.Key != "" {
			t.Errorf("%q: key %q", lines, a.Key)
		}
	}
	for _, name := range methodOverrides {
		if a := read(true, name, ""); !a.Override {
			t.Errorf("%s is no override", name)
		}
	}
	if a := read(true, "early-data", "1"); a.EarlyData != decision.EarlyDataSent {
		t.Errorf("early data: %v", a.EarlyData)
	}
	if a := read(true, ":method", "GET"); a.Known || a.Method != "" {
		t.Errorf("two methods: %q", a.Method)
	}
	var e Exchange
	if a := e.Answer(headers(":status", "503")); a.Known || a.EarlyData != decision.EarlyDataUnknown || a.Body(1) != decision.ReplayabilityUnknown {
		t.Errorf("no request was seen: %+v", a)
	}
}

func TestExchangeAttributes(t *testing.T) {
	read := func(fields map[string]any) Attempt {
		var e Exchange
		e.Attributes(attributes(t, fields))
		e.Attributes(nil) // a later message without any takes nothing back
		return e.Answer(headers(":status", "503"))
	}
	if a := read(map[string]any{attributeCluster: "app", attributeAttempts: 3.0}); a.Cluster != "app" || a.Number != 3 {
		t.Errorf("%+v", a)
	}
	for _, n := range []any{0.0, -1.0, 1.5, 1e300, float64(1 << 20), "1", true, nil, []any{1.0}} {
		if a := read(map[string]any{attributeAttempts: n}); a.Number != 0 {
			t.Errorf("%v: attempt %d", n, a.Number)
		}
	}
	for _, wrong := range []any{1.0, true, nil, []any{"via_upstream"}, map[string]any{"via_upstream": "x"}} {
		if a := read(map[string]any{attributeDetails: wrong, attributeCluster: wrong}); a.Evidence != decision.EvidenceUnknown || a.Cluster != "" {
			t.Errorf("%v: %v, cluster %q", wrong, a.Evidence, a.Cluster)
		}
	}
}

func TestOverrideAttribute(t *testing.T) {
	for _, test := range []struct {
		fields map[string]any
		want   bool
	}{
		{nil, false},
		{map[string]any{"request.headers['idempotency-key']": "k"}, false},
		{map[string]any{"request.headers['x-http-method-override']": ",POST"}, true},
		{map[string]any{"request.headers['x-http-method']": ""}, true},
		{map[string]any{"request.headers['x-method-override']": "-"}, true},
	} {
		if got := OverrideAttribute(attributes(t, test.fields)); got != test.want {
			t.Errorf("%v: %v", test.fields, got)
		}
	}
	if OverrideAttribute(nil) {
		t.Error("no attributes at all: an override")
	}
}

func TestKeyAttribute(t *testing.T) {
	both := attributes(t, map[string]any{"request.headers['idempotency-key']": "k1,k2", "request.headers['x']": 1.0})
	for key, want := range map[string]string{"idempotency-key": "k1,k2", "x": "", "y": "", "": "", "'] + ['": ""} {
		if got := KeyAttribute(both, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if got := KeyAttribute(nil, "x"); got != "" {
		t.Errorf("nil: %q", got)
	}
	if got := KeyAttribute(map[string]*structpb.Struct{attributesBundle: nil}, "x"); got != "" {
		t.Errorf("nil bundle: %q", got)
	}
}
