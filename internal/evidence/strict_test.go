package evidence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// notSent is an answer that proves NOT_SENT, with one header replaced ("" takes it away).
const (
	notSentLine    = "v1 flags=UF sent=0 tries=1 received=5 duration=3 upload=1 protocol= redirected= id=i1 attempt=1 remaining=1000 host=127.0.0.1:1 operation=pay cluster=app"
	notSentDetails = detailsResetBefore + "remote_connection_failure}"
)

func notSent(replace ...string) Headers {
	answer := []string{
		":status", "503", factsHeader, notSentLine, factDetails, notSentDetails, factMethod, "POST",
		factPath, "/pay", factKey, "k1", factLength, "5",
	}
	for i := 0; i < len(replace); i += 2 {
		at := slices.Index(answer, replace[i])
		switch {
		case at < 0:
			answer = append(answer, replace[i], replace[i+1])
		case replace[i+1] == "":
			answer = slices.Delete(answer, at, at+2)
		default:
			answer[at+1] = replace[i+1]
		}
	}
	return headers(answer...)
}

func TestNotSentIsProven(t *testing.T) {
	a := FromFacts(notSent(), "k1")
	want := Attempt{
		Known: true, Evidence: decision.NotSent, LocalReply: true, Status: 503, Details: notSentDetails,
		Flags: "UF", Host: "127.0.0.1:1", ID: "i1", Number: 1, Method: "POST", Path: "/pay", Operation: "pay",
		Cluster: "app", Key: "k1", EarlyData: decision.EarlyDataNotSent, BodyReceived: 5, BodyAnnounced: 5,
		Deadline: decision.DeadlineKnown, Remaining: 998 * time.Millisecond,
	}
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", a, want)
	}
}

func wantNothing(t *testing.T, what string, a Attempt) {
	t.Helper()
	if a.Known || a.LocalReply || a.Evidence != decision.EvidenceUnknown || a.Permanent != decision.PermanentNone || a.Number != 0 ||
		a.Method != "" || a.Key != "" || a.Cluster != "" || a.Deadline != decision.DeadlineUnknown ||
		a.EarlyData != decision.EarlyDataUnknown || a.Body(1<<40) != decision.ReplayabilityUnknown {
		t.Errorf("%s: something is known: %+v", what, a)
	}
}

// TestFactsAreReadStrictly: each field once, in its order, behind the known version. Anything else,
// and nothing at all is known.
func TestFactsAreReadStrictly(t *testing.T) {
	fields := strings.Split(notSentLine, " ")
	reject := func(what, line string) {
		t.Helper()
		wantNothing(t, what+": "+line, FromFacts(notSent(factsHeader, line), "k1"))
	}
	for i, field := range fields {
		without := slices.Delete(slices.Clone(fields), i, i+1)
		reject("missing", strings.Join(without, " "))
		reject("blank before", strings.Join(slices.Insert(slices.Clone(fields), i, ""), " "))
		name, value, _ := strings.Cut(field, "=")
		if i == len(fields)-1 {
			break // the last field may contain anything
		}
		reject("twice", strings.Join(slices.Insert(slices.Clone(fields), i, field), " "))
		swapped := slices.Clone(fields)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		reject("reordered", strings.Join(swapped, " "))
		if i == 0 {
			continue // versions are below
		}
		for _, other := range []string{strings.ToUpper(name) + "=" + value, name + value, name + ":" + value, name + " =" + value, name + "= " + value, "x" + field, "\t" + field} {
			changed := slices.Clone(fields)
			changed[i] = other
			reject("spelled differently", strings.Join(changed, " "))
		}
	}
	for _, version := range []string{"v0", "v2", "v10", "V1", "1", "", "v1,v1", "v1\t", " v1"} {
		reject("version", version+strings.TrimPrefix(notSentLine, "v1"))
	}
	reject("empty", "")
	reject("only the version", "v1 ")
	reject("tabs", strings.ReplaceAll(notSentLine, " ", "\t"))
}

// TestNumbersAreReadStrictly: a number that Envoy would not have written proves nothing.
func TestNumbersAreReadStrictly(t *testing.T) {
	bad := []string{"", "-", "-0", "-1", "+0", "+1", "00", "01", "0x0", "0x1", "0.0", "1.0", "1e0", "0_0", "a", "0,", "0\t", "1\t", "0\u00a0", "0\x00", "\u0966", "18446744073709551616", "9223372036854775808"}
	set := func(name, value string) Headers {
		start := strings.Index(notSentLine, name+"=") + len(name) + 1
		end := start + strings.Index(notSentLine[start:], " ")
		return notSent(factsHeader, notSentLine[:start]+value+notSentLine[end:])
	}
	for _, value := range bad {
		for _, name := range []string{"sent", "tries"} {
			if a := FromFacts(set(name, value), "k1"); a.Evidence == decision.NotSent {
				t.Errorf("%s=%q: NOT_SENT", name, value)
			}
		}
		if a := FromFacts(set("received", value), "k1"); a.Body(1<<40) != decision.ReplayabilityUnknown {
			t.Errorf("received=%q: %v", value, a.Body(1<<40))
		}
		if a := FromFacts(set("attempt", value), "k1"); a.Number != 0 {
			t.Errorf("attempt=%q: attempt %d", value, a.Number)
		}
		if a := FromFacts(set("duration", value), "k1"); a.Deadline != decision.DeadlineUnknown {
			t.Errorf("duration=%q: deadline %v", value, a.Deadline)
		}
		if value != "-" {
			if a := FromFacts(set("remaining", value), "k1"); a.Deadline != decision.DeadlineUnknown {
				t.Errorf("remaining=%q: deadline %v", value, a.Deadline)
			}
		}
		if value != "-" && value != "" {
			if a := FromFacts(set("upload", value), "k1"); a.Deadline != decision.DeadlineUnknown {
				t.Errorf("upload=%q: deadline %v", value, a.Deadline)
			}
			if a := FromFacts(notSent(factLength, value), "k1"); a.Body(1<<40) != decision.ReplayabilityUnknown {
				t.Errorf("length %q: %v", value, a.Body(1<<40))
			}
		}
	}
	for _, test := range []struct {
		fields    map[string]string
		state     decision.DeadlineState
		remaining time.Duration
	}{
		{map[string]string{"remaining": "-"}, decision.DeadlineNone, 0},
		{map[string]string{"remaining": "0"}, decision.DeadlineKnown, 0},
		{map[string]string{"remaining": "1"}, decision.DeadlineKnown, 0}, // 2 ms have passed since
		{map[string]string{"upload": ""}, decision.DeadlineKnown, time.Second},
		{map[string]string{"upload": "-"}, decision.DeadlineKnown, time.Second},
		{map[string]string{"upload": "9"}, decision.DeadlineKnown, time.Second}, // never more than there was
		{map[string]string{"upload": "3009", "duration": "3009"}, decision.DeadlineKnown, time.Second},
		{map[string]string{"duration": "9223372036854775807", "upload": "0"}, decision.DeadlineKnown, 0},
		{map[string]string{"remaining": "1099511627777"}, decision.DeadlineUnknown, 0},
	} {
		line := notSentLine
		for name, value := range test.fields {
			start := strings.Index(line, name+"=") + len(name) + 1
			end := start + strings.Index(line[start:], " ")
			line = line[:start] + value + line[end:]
		}
		a := FromFacts(notSent(factsHeader, line), "k1")
		if a.Deadline != test.state || a.Remaining != test.remaining {
			t.Errorf("%v: deadline %v, %v left, want %v", test.fields, a.Deadline, a.Remaining, test.remaining)
		}
	}
}

// TestDuplicateLines: Envoy writes each header once; one that is there twice was not written by it.
func TestDuplicateLines(t *testing.T) {
	twice := func(key, value string) Headers {
		h := notSent()
		return Headers{append(h.list, &corev3.HeaderValue{Key: key, RawValue: []byte(value)})}
	}
	wantNothing(t, "facts", FromFacts(twice(factsHeader, notSentLine), "k1"))
	wantNothing(t, "facts", FromFacts(twice(factsHeader, ""), "k1"))
	wantNothing(t, "details", FromFacts(twice(factDetails, notSentDetails), "k1"))
	wantNothing(t, "no details", FromFacts(notSent(factDetails, ""), "k1"))
	if a := FromFacts(twice(factMethod, "GET"), "k1"); a.Method != "" {
		t.Errorf("two methods: %s", a.Method)
	}
	if a := FromFacts(twice(factKey, "k1"), "k1"); a.Key != "" {
		t.Errorf("two keys: %s", a.Key)
	}
	if a := FromFacts(twice(factLength, "5"), "k1"); a.Body(1<<40) != decision.ReplayabilityUnknown {
		t.Errorf("two lengths: %v", a.Body(1<<40))
	}
	if a := FromFacts(twice(headerStatus, "429"), "k1"); a.Status != 0 {
		t.Errorf("two statuses: %d", a.Status)
	}
	for _, key := range []string{factOverride, factEarlyData} {
		h := notSent(key, "1")
		a := FromFacts(Headers{append(h.list, &corev3.HeaderValue{Key: key})}, "k1")
		if key == factOverride && !a.Override || key == factEarlyData && a.EarlyData != decision.EarlyDataSent {
			t.Errorf("%s twice is overlooked", key)
		}
	}
}

// TestValuesInEitherField: Envoy sends raw_value; value is read where that is empty.
func TestValuesInEitherField(t *testing.T) {
	h := Headers{[]*corev3.HeaderValue{{Key: headerStatus, Value: "404"}, nil, {Key: headerDate, Value: "a", RawValue: []byte("b")}}}
	if got := h.value(headerStatus); got != "404" {
		t.Errorf("value: %q", got)
	}
	if got := h.value(headerDate); got != "b" {
		t.Errorf("raw_value: %q", got)
	}
	if h.Len() != 3 || h.Bytes() != len(headerStatus)+3+len(headerDate)+1 {
		t.Errorf("%d lines, %d bytes", h.Len(), h.Bytes())
	}
	if h := NewHeaders(nil); h.Len() != 0 || h.Has("") || h.Values("x") != nil {
		t.Error("nil is not an empty map")
	}
}
