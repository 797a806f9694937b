package evidence

import (
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/verdictproxy/verdict/pkg/decision"
)

const outerLine = "v1 flags=- sent=0 tries=0 id=i1"

// refused is an answer that an outer filter gave on the way in; extra headers follow.
func refused(line, details string, extra ...string) Headers {
	return headers(append([]string{":status", "403", outerHeader, line, outerDetails, details, outerMethod, "POST", outerPath, "/pay"}, extra...)...)
}

func TestOuterRefusalIsProven(t *testing.T) {
	a := FromOuter(refused(outerLine, "rbac_access_denied_matched_policy[p]"), "")
	if a.Known || a.Evidence != decision.NotSent || a.Permanent != decision.RejectedByFilter || !a.LocalReply || a.Number != 1 || a.ID != "i1" || a.Method != "POST" || a.Path != "/pay" {
		t.Errorf("%+v", a)
	}
	for _, details := range []string{"response_timeout", "no_healthy_upstream", detailsRefusedStream, detailsResetBefore + "overflow}", "ext_proc_error_x", "request_overall_timeout", "a_filter_that_nobody_knows", detailsViaUpstream} {
		if a := FromOuter(refused(outerLine, details), ""); a.Evidence != decision.EvidenceUnknown {
			t.Errorf("%s: %v", details, a.Evidence)
		}
	}
}

// TestOuterIsReadStrictly: anything but the one spelling proves nothing, and no name that it bears is
// believed.
func TestOuterIsReadStrictly(t *testing.T) {
	fields := strings.Split(outerLine, " ")
	var bad []string
	for i, field := range fields {
		bad = append(bad, strings.Join(slices.Delete(slices.Clone(fields), i, i+1), " "),
			strings.Join(slices.Insert(slices.Clone(fields), i, field), " "),
			strings.Join(slices.Insert(slices.Clone(fields), i, ""), " "))
		if i > 0 {
			swapped := slices.Clone(fields)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			bad = append(bad, strings.Join(swapped, " "))
		}
	}
	bad = append(bad, "", "v1", "v2"+outerLine[2:], outerLine+" ", " "+outerLine, strings.ToUpper(outerLine), outerLine+" x")
	for _, line := range bad {
		if a := FromOuter(refused(line, "overload"), ""); a.Evidence != decision.EvidenceUnknown || a.ID != "" || a.Method != "" || a.LocalReply {
			t.Errorf("%q: %+v", line, a)
		}
	}
	for _, numbers := range []string{"sent= tries=0", "sent=0 tries=", "sent=1 tries=0", "sent=0 tries=1", "sent=-0 tries=0", "sent=00 tries=0", "sent=0 tries=00", "sent=- tries=-"} {
		if a := FromOuter(refused("v1 flags=- "+numbers+" id=i1", "overload"), ""); a.Evidence != decision.EvidenceUnknown || a.Method != "POST" {
			t.Errorf("%s: %+v", numbers, a)
		}
	}
	for _, key := range []string{outerHeader, outerDetails} {
		h := refused(outerLine, "overload")
		h.list = append(h.list, &corev3.HeaderValue{Key: key, RawValue: []byte("overload")})
		if a := FromOuter(h, ""); a.Evidence != decision.EvidenceUnknown || a.ID != "" {
			t.Errorf("two lines of %s: %+v", key, a)
		}
	}
	if a := FromOuter(headers(":status", "503"), ""); a.Evidence != decision.EvidenceUnknown || a.Status != 503 {
		t.Errorf("no outer facts: %+v", a)
	}
}

// TestJudgeFailedOpen: the inner hop's facts count only where the outer hop passed its answer on, and
// only for the same request.
func TestJudgeFailedOpen(t *testing.T) {
	inner := []string{factsHeader, notSentLine, factDetails, notSentDetails, factMethod, "PUT", factPath, "/inner"}
	for _, test := range []struct {
		name, line, details string
		inner               []string
		known               bool
	}{
		{"passed on", "v1 flags=- sent=90 tries=1 id=i1", detailsViaUpstream, inner, true},
		{"after retries", "v1 flags=URX sent=300 tries=3 id=i1", detailsViaUpstream, inner, true},
		{"another request's id", "v1 flags=- sent=90 tries=1 id=i2", detailsViaUpstream, inner, false},
		{"no id outside", "v1 flags=- sent=90 tries=1 id=", detailsViaUpstream, inner, false},
		{"no facts inside", "v1 flags=- sent=90 tries=1 id=i1", detailsViaUpstream, nil, false},
		{"other facts inside", "v1 flags=- sent=90 tries=1 id=i1", detailsViaUpstream, []string{factsHeader, "v2", factDetails, "overload"}, false},
		{"router A's own answer", "v1 flags=UT sent=90 tries=1 id=i1", "response_timeout", inner, false},
		{"a filter's own answer", "v1 flags=- sent=90 tries=1 id=i1", "rbac_access_denied_matched_policy[p]", inner, false},
	} {
		a := FromOuter(refused(test.line, test.details, test.inner...), "")
		if a.Known != test.known {
			t.Errorf("%s: known=%v", test.name, a.Known)
			continue
		}
		if test.known && (a.Evidence != decision.NotSent || a.Method != "PUT" || a.Number != 1) {
			t.Errorf("%s: %+v", test.name, a)
		}
		if !test.known && (a.Evidence != decision.EvidenceUnknown || a.Method != "POST" || a.Path != "/pay") {
			t.Errorf("%s: %+v", test.name, a)
		}
	}
}

// TestOuterChosenValues: what a client chooses stays in its header.
func TestOuterChosenValues(t *testing.T) {
	for _, chosen := range hostile {
		for _, name := range []string{outerMethod, outerPath, outerRequestID, outerOverride, "x-anything"} {
			h := refused("v1 flags=UT sent=9 tries=1 id=i1", "response_timeout", name, chosen)
			if a := FromOuter(h, chosen); a.Evidence != decision.EvidenceUnknown || a.ID != "i1" || a.Details != "response_timeout" || a.Number != 1 {
				t.Errorf("%s %q: %+v", name, chosen, a)
			}
			if a := FromOuter(h, chosen); name == outerOverride && !a.Override {
				t.Errorf("%q is no override", chosen)
			}
		}
		if a := FromOuter(refused(outerLine, "lua_"+chosen), ""); a.Evidence != decision.EvidenceUnknown {
			t.Errorf("details %q: %v", chosen, a.Evidence)
		}
	}
}
