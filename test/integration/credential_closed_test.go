package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// slowly delays every attempt but the first in front of the credential filter, so that something can happen
// between the verdict and the replay.
var slowly = stack.NewPatch("attempts after the first are slow", stack.Insert(stack.HTTPFilter("attempts", "credential-pending"),
	`{name: slowly, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault,
		delay: {fixed_delay: 1.5s, percentage: {numerator: 100}},
		headers: [{name: x-envoy-attempt-count, string_match: {exact: "2"}}]}}`))

// quickCredential lets a message timeout of the credential filter pass soon.
var quickCredential = stack.NewPatch("a credential in 1 s",
	stack.Set(stack.DelegatedConfig("attempts", "credential")+"/message_timeout", "1s"),
	stack.Set(stack.DelegatedConfig("attempts", "credential")+"/grpc_service/initial_metadata/1/value", `"1000"`))

// Verdict says retry, and is gone when the replay asks for its credential: the replay is not sent, neither
// with the old credential nor without one.
func TestCredentialFailsClosed(t *testing.T) {
	t.Parallel()
	open := stack.NewPatch("the credential filter fails open", stack.Set(stack.DelegatedConfig("attempts", "credential")+"/failure_mode_allow", "true"))
	for _, test := range []struct {
		name    string
		end     func(*stack.Stack, int)
		method  string
		fault   string
		patches []stack.Patch
		hits    int
		status  int // 0: any of Envoy's own
		// verdict is what Envoy says by itself, or nothing.
		verdict string
	}{
		{"killed, GET", (*stack.Stack).KillService, "GET", "guarded", nil, 1, 0, ""},
		{"stopped, GET", (*stack.Stack).StopService, "GET", "guarded", nil, 1, 0, ""},
		{"killed, PUT", (*stack.Stack).KillService, "PUT", "guarded", nil, 1, 0, "ambiguous"},
		{"killed, PUT after a 503", (*stack.Stack).KillService, "PUT", "503, guarded", nil, 1, 0, "ambiguous"},
		// What failing closed is for.
		{"open", (*stack.Stack).KillService, "GET", "guarded", []stack.Patch{open}, 2, 401, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := startCredentials(t, stack.FirstFromVerdict,
				stack.Options{Patches: append([]stack.Patch{slowly, quickCredential}, test.patches...)},
				source{name: "app1", policy: "{replay_on_401: idempotent, backoff: {base: 0.001s, max: 0.001s}}"})
			wantStatus(t, l.Do(get("app1")), 200)
			l.issuer("app1").revoke()
			r := get("app1")
			r.Fault = test.fault
			if test.method != "GET" {
				r = with(r, test.method)
			}
			answered := l.ask(t, r)
			l.waitRetry(t, "app1")
			test.end(l.Stack, 0)
			a := <-answered
			if got := len(l.Upstream.Hits(a.ID)); got != test.hits {
				t.Errorf("%d attempts were sent, want %d: %q", got, test.hits, l.carried(a))
			}
			for i, carried := range l.carried(a) {
				if i > 0 && carried != "" {
					t.Errorf("attempt %d carried %s", i+1, carried)
				}
			}
			if test.status != 0 {
				wantStatus(t, a, test.status)
			} else if a.Status < 500 {
				t.Errorf("status %d", a.Status)
			}
			if got := a.Report().Verdict; got != test.verdict {
				t.Errorf("verdict %q, want %q", got, test.verdict)
			}
		})
	}
}

// An attempt for which there is no credential is not sent, and nothing is claimed of the attempts before.
func TestCredentialRefused(t *testing.T) {
	t.Parallel()
	// The tokens have expired when the second attempt asks for one, and by then there are no others.
	const late = "{backoff: {base: 2.5s, max: 2.6s, jitter: decorrelated}}"
	shortLived := func(i *issuer) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { i.answer(w, 1) }
	}
	l := startCredentials(t, stack.FirstFromVerdict, stack.Options{},
		source{name: "none", play: func(*issuer) http.HandlerFunc { return http.NotFound }},
		source{name: "put", play: shortLived, policy: late},
		source{name: "get", play: shortLived, policy: late},
		source{name: "connect", play: shortLived, policy: late, address: "closed"})
	refused := func(execution, attempts string) stack.Report {
		return stack.Report{Verdict: "denied", Reason: "permanent_failure", Evidence: "NOT_SENT", Execution: execution, Attempts: attempts}
	}
	for name, test := range map[string]struct {
		request   stack.Request
		first     string // Envoy's statistic of the upstream that counts the first attempt's end
		hits      int
		report    stack.Report
		uncertain bool
	}{
		"a first attempt":             {with(get("none"), "POST"), "", 0, refused("NOT_EXECUTED", "1"), false},
		"a PUT that got a 503":        {stack.Request{Method: "PUT", Host: "put.example", Fault: "503", Body: "10 EUR"}, "upstream_rq_503", 1, refused("UNKNOWN", "2"), true},
		"a GET that got a 503":        {stack.Request{Host: "get.example", Fault: "503"}, "upstream_rq_503", 1, refused("UNKNOWN", "2"), false},
		"a POST that did not connect": {stack.Request{Method: "POST", Host: "connect.example", Body: "10 EUR"}, "upstream_cx_connect_fail", 0, refused("NOT_EXECUTED", "2"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			name, _, _ := strings.Cut(test.request.Host, ".")
			answered := l.ask(t, test.request)
			if test.report.Attempts == "2" {
				l.WaitStat("cluster."+name+"."+test.first, 1)
				l.issuer(name).plays(http.NotFound)
			}
			a := <-answered
			wantStatus(t, a, 503)
			wantReport(t, a, test.report)
			if uncertain := a.Report().AmbiguityID != ""; uncertain != test.uncertain {
				t.Errorf("uncertain %t, want %t: %s", uncertain, test.uncertain, a.Body)
			}
			if got := len(l.Upstream.Hits(a.ID)); got != test.hits {
				t.Errorf("%d attempts were sent, want %d", got, test.hits)
			}
			wantNothingInternal(t, a)
		})
	}
}

// Which filter has failed is told by the marks around the credential filter: behind it, another one that
// fails closed proves nothing.
func TestCredentialMarksTellFiltersApart(t *testing.T) {
	t.Parallel()
	another := stack.NewPatch("another filter that fails closed", stack.Insert(stack.HTTPFilter("attempts", "judge"),
		`{name: another, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor,
			grpc_service: {envoy_grpc: {cluster_name: nowhere}}, processing_mode: {request_header_mode: SEND}}}`),
		stack.AddUpstream("nowhere", "closed", "{typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {\"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http2_protocol_options: {}}}}}", ""))
	unmarked := stack.NewPatch("the second mark is missing", stack.Remove(stack.HTTPFilter("attempts", "credential-set")),
		stack.Remove(stack.VirtualHost("attempts", "app1")+"/typed_per_filter_config/credential-set"))
	for name, test := range map[string]struct {
		patches []stack.Patch
		want    stack.Report
	}{
		"behind the second mark": {[]stack.Patch{another}, stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}},
		// What the second mark is for.
		"without it": {[]stack.Patch{another, unmarked}, stack.Report{Verdict: "denied", Reason: "permanent_failure", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startCredentials(t, stack.FirstFromVerdict, stack.Options{Patches: test.patches}, source{name: "app1"})
			wantReport(t, l.Do(with(get("app1"), "POST")), test.want)
		})
	}
}
