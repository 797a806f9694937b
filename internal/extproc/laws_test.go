package extproc

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"

	"github.com/verdictproxy/verdict/internal/evidence"
)

const lawsConfig = `
upstreams:
- clusters: [app]
  policy:
    transient_statuses: [500]
    budget: {ratio: 0, min_retries_per_second: 10000, interval: 10s}
  operations:
  - {pattern: "POST /orders", idempotency: idempotent_with_key}
  - {pattern: "PUT /locks", idempotency: non_idempotent}
`

// drawn is a random failing answer. Three of four values are the usual ones, the first of each list.
type drawn struct {
	args []string
	v    map[string]string
	end  bool
}

func draw(r *rand.Rand) drawn {
	d := drawn{v: map[string]string{}, end: r.IntN(2) == 0}
	for _, field := range []struct {
		name   string
		values []string
	}{
		{"status", []string{"503", "502", "504", "500", "404", "408", "425", "429", "401", "421", "501", "200", "302", "600", "x", ""}},
		{"facts", []string{"", "none"}},
		{"version", []string{"v1", "v2"}},
		{"sent", []string{"0", "0", "1", "412", "", "-", "00", "-1"}},
		{"tries", []string{"1", "0", "2", "", "-"}},
		{"received", []string{"0", "5", "1048576", "1048577", ""}},
		{"length", []string{"", "5", "1048577", "x"}},
		{"upload", []string{"0", "", "5", "x"}},
		{"redirected", []string{"", "h"}},
		{"id", []string{"i1", "-", ""}},
		{"attempt", []string{"1", "2", "3", "0", "-", "x"}},
		{"remaining", []string{"10000", "-", "60", "0", ""}},
		{"cluster", []string{"app", "other", ""}},
		{"operation", []string{"", "pay", "a b"}},
		{"details", []string{"upstream_reset_before_response_started{overflow}", "via_upstream", "via_upstream", "via_upstream", "response_timeout", "no_healthy_upstream", "overload", "route_not_found",
			"upstream_reset_before_response_started{connection_termination}", "upstream_reset_before_response_started{remote_refused_stream_reset}",
			"upstream_reset_after_response_started{remote_reset}", "ext_proc_error", "stream_idle_timeout", "somebody's", ""}},
		{"method", []string{"POST", "PATCH", "PUT", "GET", "HEAD", "FOO", ""}},
		{"path", []string{"/pay", "/orders", "/locks", "//locks"}},
		{"key", []string{"-", "k1", "k1,k2", strings.Repeat("k", 256)}},
		{"override", []string{"", "PUT"}},
		{"early", []string{"", "1"}},
		{"token", []string{"T1", "clients", ""}},
		{"grpc", []string{"", "14", "0"}},
		{"retry-after", []string{"", "1", "20", "x"}},
		{"control", []string{"", "retry"}},
		{"lines", []string{"0", "180", "190", "195"}},
		{"outer-details", []string{"via_upstream", "response_timeout", "overload", ""}},
		{"outer-id", []string{"i1", "i2"}},
		{"outer-tries", []string{"0", "1"}},
		{"outer-sent", []string{"0", "9"}},
	} {
		value := field.values[0]
		if r.IntN(4) == 0 {
			value = field.values[r.IntN(len(field.values))]
		}
		d.v[field.name] = value
		d.args = append(d.args, field.name+"="+value)
	}
	if d.end {
		d.args = append(d.args, "end")
	}
	return d
}

// nonIdempotent says whether the request is of class N, by the configuration above. Where the upstream
// is not known the strictest holds.
func (d drawn) nonIdempotent(role string) bool {
	v := d.v
	switch {
	case v["override"] != "", v["redirected"] != "" && d.known(role), v["method"] == "":
		return true
	case v["method"] == "POST":
		return v["path"] != "/orders" || v["cluster"] != "app" || v["key"] != "k1"
	case v["method"] == "PUT": // a tightened method: every path that is not matched, too
		return v["cluster"] != "other"
	}
	return v["method"] != "GET" && v["method"] != "HEAD"
}

// known says that there are facts, whole, of the known version, and for the finalizer of this request.
func (d drawn) known(role string) bool {
	v := d.v
	return v["facts"] != "none" && v["version"] == "v1" && v["operation"] != "a b" && v["details"] != "" &&
		(role == "judge" || v["outer-details"] == "via_upstream" && v["id"] == v["outer-id"])
}

// upstreams says that the upstream itself is known to have answered.
func (d drawn) upstreams(role string) bool { return d.known(role) && d.v["details"] == "via_upstream" }

// set replaces a value that was drawn.
func (d *drawn) set(name, value string) {
	d.v[name] = value
	d.args = append(d.args, name+"="+value)
}

// unauthorized says that the upstream itself has rejected the credential that its source has issued.
func (d drawn) unauthorized(role string) bool {
	return role == "judge" && d.upstreams(role) && d.v["status"] == "401" && d.v["token"] == "T1" && d.v["cluster"] == "app"
}

// TestLaws draws answers and holds judge and finalizer to what they promise, whatever Envoy shows.
func TestLaws(t *testing.T) {
	inLab(t, lawsConfig, func(t *testing.T, l *lab) {
		r := rand.New(rand.NewPCG(1, 2))
		retries, uncertain, replays := 0, 0, 0
		for range 20000 {
			d := draw(r)
			if r.IntN(10) == 0 {
				d.set("status", "401")
				d.set("details", "via_upstream")
				d.set("method", []string{"GET", "HEAD", "PUT", "POST"}[r.IntN(4)])
			}
			role := roles[r.IntN(2)]
			in := []*extprocv3.ProcessingRequest{showHeaders(d.args), showBody([]string{[]string{"end", ""}[r.IntN(2)]})}
			l.source = newScriptedSource(t, []string{"latest=T1", "refresh=T2"})
			l.Credentials = l.credentials
			s, err := l.process(lawsMetadata(role), 0, in...)
			if err != nil {
				t.Fatalf("%v: %v", d.args, err)
			}
			e := &envoy{t: t, allowModeOverride: role == "judge", allowEnvoy: role == "judge", maxHeaders: 200}
			told := readAll(t, e, in, s.out)
			if told.retry {
				retries++
			}
			if d.unauthorized(role) && told.retry {
				replays++
			}
			if refreshed := len(l.source.calls) > 0; refreshed && !d.unauthorized(role) {
				t.Fatalf("%s: a credential was refreshed that nobody has rejected\n%v", role, d.args)
			}
			if told.set[evidence.ReportAmbiguityID] != "" {
				uncertain++
			}
			if broken := d.laws(role, told); broken != "" {
				t.Fatalf("%s: %s\n%v\n%s", role, broken, d.args, describe(told.answer))
			}
		}
		// Nothing is granted that was not said, and the draw reaches both sides.
		grants := strings.Count(l.events.String(), `"grant","milli"`)
		if returns := strings.Count(l.events.String(), `"event":"return"`); grants != retries || returns != 0 {
			t.Errorf("%d tokens, %d returned, for %d retries", grants, returns, retries)
		}
		t.Logf("%d retries, %d uncertain outcomes, %d replays", retries, uncertain, replays)
		if retries < 1000 || uncertain < 5000 || replays == 0 {
			t.Errorf("only %d retries, %d uncertain outcomes and %d replays were drawn", retries, uncertain, replays)
		}
	})
}

func lawsMetadata(role string) metadata.MD {
	return judgeMetadata(evidence.MetadataRole, role)
}

// told is what a whole stream told Envoy: the last answer to headers or body.
type told struct {
	answer
	retry bool
}

// readAll matches the messages of a stream with its requests.
func readAll(t *testing.T, e *envoy, in []*extprocv3.ProcessingRequest, out []*extprocv3.ProcessingResponse) told {
	t.Helper()
	var last told
	for _, req := range in {
		if h := req.GetResponseHeaders(); h != nil {
			e.shown(h)
		}
		for len(out) > 0 && out[0].GetResponse() == nil {
			out = out[1:] // override
		}
		if b := req.GetResponseBody(); b != nil && last.asks && !b.GetEndOfStream() {
			break // to a body that has not come whole the judge ends the stream
		}
		if len(out) == 0 {
			t.Fatal("a message without an answer")
		}
		a := e.read(req, out[0])
		out = out[1:]
		if a.set[evidence.Control] != "" {
			last.retry = true
		}
		if req.GetResponseHeaders() != nil || len(a.set) > 0 || len(a.removed) > 0 {
			last.answer = a
		}
	}
	if len(out) != 0 {
		t.Fatalf("%d messages after the end", len(out))
	}
	return last
}

// laws returns the law that is broken, or "".
func (d drawn) laws(role string, told told) string {
	set := told.set
	verdict, execution := set[evidence.ReportVerdict], set[evidence.ReportExecution]
	uncertain := set[evidence.ReportAmbiguityID] != ""
	control := set[evidence.Control]
	roomy := number(d.v["lines"]) < 180
	status, _ := strconv.Atoi(d.v["status"])
	switch {
	case control != "" && (control != "retry" || role != "judge"):
		return "a control header that is not the judge's word"
	case told.retry && !d.known(role):
		return "a retry without facts"
	case told.retry && d.nonIdempotent(role) && roomy && execution != "NOT_EXECUTED":
		return "a retry on a non-idempotent operation that may have been executed"
	case told.retry && d.upstreams(role) && status == 401 && !(d.unauthorized(role) && d.v["attempt"] == "1" && (d.v["method"] == "GET" || d.v["method"] == "HEAD")):
		return "a 401 was replayed that must not be"
	case told.retry && verdict != "" && (verdict != "denied" || set[evidence.ReportReason] != "retry_not_executed"):
		return "a retry whose report would be wrong if router A did not do it"
	case !told.retry && role == "judge" && d.v["control"] != "" && !slices.Contains(told.removed, evidence.Control):
		return "a control header of somebody else's is left"
	case verdict == "ambiguous" && !uncertain && set[evidence.ReportReason] != "":
		return "ambiguous, but not uncertain"
	case set[evidence.ReportEvidence] == "NOT_SENT" && (uncertain && d.nonIdempotent(role) || execution != "NOT_EXECUTED" && d.nonIdempotent(role)):
		return "NOT_SENT, but not NOT_EXECUTED"
	case told.problem != "" && (!uncertain || d.v["method"] == "HEAD" || d.v["grpc"] != ""):
		return "a problem body where there may be none"
	case told.problem != "" && d.upstreams(role):
		return "the upstream's own answer was replaced"
	case roomy && verdict == "" && !(d.upstreams(role) && status >= 200 && status <= 399):
		return "a failing answer without a label"
	case roomy && verdict == "denied" && !uncertain && d.nonIdempotent(role) && execution == "UNKNOWN" && !(d.upstreams(role) && status >= 500):
		return "an uncertain outcome is reported as a plain failure"
	}
	return ""
}
