package evidence

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// hostile are values that a client or an upstream would choose in order to be read as a fact.
var hostile = []string{
	notSentLine,
	"sent=0 tries=1",
	" sent=0 tries=1 ",
	"x cluster=other",
	"a\r\nx-verdict-facts: " + notSentLine,
	"a\nx-verdict-details: overload",
	"a\x00" + notSentLine,
	"\xff\xfe sent=0 tries=1",
	"\u2028sent=0\u00a0tries=1",
	strings.Repeat("sent=0 tries=1 ", 500),
	"via_upstream",
	"overload",
	detailsRefusedStream,
	detailsResetBefore + detailsRefusedStream + "}",
	"CERTIFICATE_VERIFY_FAILED",
}

// TestNothingIsSmuggled: whatever a client or an upstream puts where it can choose, it moves no other
// fact.
func TestNothingIsSmuggled(t *testing.T) {
	sent := strings.Replace(notSentLine, "sent=0", "sent=412", 1)
	const reset = detailsResetBefore + "connection_termination}"
	for _, chosen := range hostile {
		for _, name := range []string{factPath, factKey, factMethod, factTransport, factRequestID, factEarlyData, factOverride, factLength, "x-anything", "set-cookie", headerRetryAfter, headerDate, headerContentType, headerGRPCStatus} {
			got := FromFacts(notSent(factsHeader, sent, factDetails, reset, name, chosen), chosen)
			if got.Evidence != decision.SentNoResponse || got.Permanent != decision.PermanentNone {
				t.Errorf("%s %q: %v, permanent=%v", name, chosen, got.Evidence, got.Permanent)
			}
			if got.Number != 1 || got.ID != "i1" || got.Cluster != "app" || got.Operation != "pay" || got.Details != reset || !got.LocalReply || got.Redirected {
				t.Errorf("%s %q moved another fact: %+v", name, chosen, got)
			}
			if name != factPath && got.Path != "/pay" || name != factMethod && got.Method != "POST" {
				t.Errorf("%s %q moved path or method: %s %s", name, chosen, got.Method, got.Path)
			}
		}
		// Details may hold text of the upstream's, of a Lua script's, of a user's policy.
		for _, details := range []string{detailsResetBefore + chosen + "}", detailsResetAfter + chosen + "}", "lua_" + chosen, chosen + "}"} {
			if got := FromFacts(notSent(factsHeader, sent, factDetails, details), "k1"); got.Evidence != decision.SentNoResponse && details != detailsRefusedStream {
				t.Errorf("details %q: %v", details, got.Evidence)
			}
		}
	}
}

// TestOwnWordsStayInTheirField: what the operator names, and the id, stand in the line of facts. A
// blank in them shifts the fields, and then nothing is known.
func TestOwnWordsStayInTheirField(t *testing.T) {
	for _, shifted := range []string{"operation=pay ments", "operation=pay cluster=x", "host=/run/my socket", "id=i1 i2", "flags=UF UC", "protocol=HTTP/1.1 sent=0"} {
		name, _, _ := strings.Cut(shifted, "=")
		start := strings.Index(notSentLine, name+"=")
		end := start + strings.Index(notSentLine[start:], " ")
		line := notSentLine[:start] + shifted + notSentLine[end:]
		a := FromFacts(notSent(factsHeader, line), "k1")
		if shifted == "operation=pay cluster=x" { // the cluster, last, is then no declared one
			if a.Cluster != "x cluster=app" {
				t.Errorf("%s: cluster %q", shifted, a.Cluster)
			}
			continue
		}
		wantNothing(t, shifted, a)
	}
	for _, cluster := range []string{"my cluster", "a  b ", " ", "a cluster=b", "outbound|80||a.b", "\xff"} {
		line := strings.Replace(notSentLine, "cluster=app", "cluster="+cluster, 1)
		if a := FromFacts(notSent(factsHeader, line), "k1"); a.Cluster != cluster || a.Evidence != decision.NotSent {
			t.Errorf("cluster %q is read as %q", cluster, a.Cluster)
		}
	}
}

// TestRedirected: the counters are of the last request; the one before it was executed. A request whose own
// id is gone before the head has seen it has been at router B before.
func TestRedirected(t *testing.T) {
	for _, details := range []string{notSentDetails, detailsRefusedStream, "no_healthy_upstream"} {
		for _, marks := range [][2]string{{"redirected=", "redirected=h"}, {"id=i1", "id=-"}, {"id=i1", "id="}} {
			line := strings.Replace(notSentLine, marks[0], marks[1], 1)
			a := FromFacts(notSent(factsHeader, line, factDetails, details), "k1")
			if !a.Redirected || a.Evidence != decision.SentNoResponse || a.Permanent != decision.PermanentNone {
				t.Errorf("%s, %s: %v, permanent=%v, redirected=%v", details, marks[1], a.Evidence, a.Permanent, a.Redirected)
			}
		}
	}
}

// TestKey: exactly one line, at most 255 bytes. The fact header shows the first line, cut at 257
// bytes; the attribute shows all lines joined by a comma, "" when there is none.
func TestKey(t *testing.T) {
	long := func(n int) string { return strings.Repeat("k", n) }
	cut := func(s string) string { return s[:min(len(s), factKeyLimit)] }
	for _, test := range []struct {
		name, header, attribute string
		want                    string
	}{
		{"one", "k1", "k1", "k1"},
		{"a dash that a client sent", "-", "-", "-"},
		{"none", "-", "", ""},
		{"two lines", "k1", "k1,k2", ""},
		{"the same twice", "k1", "k1,k1", ""},
		{"one with a comma", "k1,k2", "k1,k2", ""},
		{"the attribute was not asked for", "k1", "", ""},
		{"the header is missing", "", "k1", ""},
		{"they differ", "k1", "k2", ""},
		{"empty", "", "", ""},
		{"blank before", " k1", " k1", ""},
		{"blank behind", "k1\t", "k1\t", ""},
		{"blank inside", "k 1", "k 1", "k 1"},
		{"255 bytes", cut(long(255)), long(255), long(255)},
		{"256 bytes", cut(long(256)), long(256), ""},
		{"257 bytes", cut(long(257)), long(257), ""},
		{"258 bytes", cut(long(258)), long(258), ""},
		{"258 bytes, the attribute cut too", cut(long(258)), cut(long(258)), ""},
	} {
		if a := FromFacts(notSent(factKey, test.header), test.attribute); a.Key != test.want {
			t.Errorf("%s: key %q, want %q", test.name, a.Key, test.want)
		}
	}
}

func TestBody(t *testing.T) {
	for _, test := range []struct {
		received, announced, limit int64
		want                       decision.Replayability
	}{
		{0, -1, 0, decision.Replayable}, {0, 0, 0, decision.Replayable},
		{10, 10, 10, decision.Replayable}, {9, 10, 10, decision.Replayable},
		{11, -1, 10, decision.OneShot}, {0, 11, 10, decision.OneShot}, {11, 11, 10, decision.OneShot},
		{-1, 5, 10, decision.ReplayabilityUnknown}, {5, 5, -1, decision.ReplayabilityUnknown},
	} {
		a := Attempt{BodyReceived: test.received, BodyAnnounced: test.announced}
		if got := a.Body(test.limit); got != test.want {
			t.Errorf("%d received, %d announced, limit %d: %v, want %v", test.received, test.announced, test.limit, got, test.want)
		}
	}
}
