package integration

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/internal/app"
	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// `extproc check --envoy FILE` finds each trap in the file, and says where: the place's line has the text.
// A trap that breaks a promise fails the check; what only costs something is a warning.
func TestTrapCheck(t *testing.T) {
	t.Parallel()
	up, err := upstream.Start(upstream.Addrs{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	lab := stack.LabClusters()
	for _, test := range []struct {
		rule     string
		severity string // "": nothing is found
		at       string
		patches  []stack.Patch
	}{
		{"hop.yaml", "", "", nil},
		{"hop.yaml", "", "", []stack.Patch{traced(t, "127.0.0.1:4000")}},
		{"a filter of their own", "", "", []stack.Patch{abortAfter}},
		{"plaintext", "warning", "10.0.0.7", []stack.Patch{elsewhere}},
		{"TLS to Verdict", "", "", []stack.Patch{elsewhere, newTLSLab(t).patch(t, nil)}},
		{"inner_retry", "error", "num_retries: 1", []stack.Patch{innerRetry}},
		{"inner_hedge", "error", "hedge_on_per_try_timeout", []stack.Patch{innerHedge}},
		{"inner_redirect", "error", "redirect_response_codes", []stack.Patch{lab, innerRedirect}},
		{"steered", "error", "x-envoy-retry-on", []stack.Patch{steeredBy("outer", "all")}},
		{"local_reply_status", "error", "409", []stack.Patch{localReplies("attempts", "409")}},
		{"inner_match", "error", "x-envoy-attempt-count", []stack.Patch{attemptRoutes}},
		{"upgrade_filters", "error", "name: router", []stack.Patch{upgradesPastTheJudge}},
		{"steered", "error", "x-envoy-retry-on", []stack.Patch{steeredBy("attempts", "app")}},
		{"inner_mirror", "error", "cluster: mirroring", []stack.Patch{lab, innerMirror}},
		{"inner_attempt_count", "warning", "include_request_attempt_count", []stack.Patch{innerCount}},
		{"shared_connection", "error", "http2_protocol_options", []stack.Patch{http2Hops}},
		{"trailers", "error", "", []stack.Patch{withoutTrailers}},
		{"trailers", "error", "", []stack.Patch{trailersIgnored}},
		{"idle_timeout", "warning", "", []stack.Patch{hundredBack}},
		{"kept_connection", "error", "", []stack.Patch{keptConnections}},
		{"refused_upgrade", "warning", "websocket", []stack.Patch{withoutUpgrades}},
		{"headers_count", "warning", "", []stack.Patch{hundredBack}},
		{"headers_count", "warning", "", []stack.Patch{hundredIn}},
		{"metadata", "error", `"200"`, []stack.Patch{hundredHeaders}},
		{"metadata", "error", `"60000"`, []stack.Patch{saidTooMuch}},
		{"metadata", "error", `""`, []stack.Patch{saidNothing}},
		{"rate_limited", "error", "judge", []stack.Patch{noMutationRules}},
		{"proxy_100_continue", "error", "proxy_100_continue", []stack.Patch{continueProxied}},
		{"finalizer", "error", "", []stack.Patch{nobodyLabels}},
		{"late_timeout", "warning", "0.4s", []stack.Patch{impatient}},
		{"short_life", "warning", "0.4s", []stack.Patch{impatient}},
		{"no_deadline", "warning", "0s", []stack.Patch{impatient}},
		{"internal_address", "error", "", []stack.Patch{noInternalAddresses}},
		{"head_first", "error", "", []stack.Patch{abortBefore}},
		{"hidden_facts", "error", "x-verdict-facts", []stack.Patch{hiddenFacts}},
		{"raw_path", "warning", "", []stack.Patch{rawPaths}},
		{"short_timeout", "warning", "0.2s", []stack.Patch{stack.NewPatch("a message_timeout that fails open under load",
			stack.Set(stack.DelegatedConfig("attempts", "judge")+"/message_timeout", "0.2s"))}},
		{"unseen", "warning", "x-cluster", []stack.Patch{oddClusters}},
		{"breakers", "error", "", []stack.Patch{fewRetries}},
		{"breakers", "error", "", []stack.Patch{fewJudges}},
		{"proxy_protocol_v1", "error", "version: V1", []stack.Patch{proxyProtocol("V1")}},
		{"proxy_protocol_v1, V2", "", "", []stack.Patch{proxyProtocol("V2")}},
	} {
		var names []string
		for _, p := range test.patches {
			names = append(names, p.Name)
		}
		t.Run(test.rule+", "+strings.Join(names, ", "), func(t *testing.T) {
			text, err := stack.Render(up, test.patches...)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
			if log := validate(t, stack.EnvoyVersion, file); len(log) > 0 {
				t.Errorf("envoy --mode validate complains:\n%s", strings.Join(log, "\n"))
			}
			findings, code := check(t, file)
			if wantCode := strings.Count(test.severity, "error"); code < wantCode {
				t.Errorf("exit code %d", code)
			}
			if test.severity == "" {
				if code != 0 || len(findings) > 0 {
					t.Errorf("exit code %d:\n%s", code, strings.Join(findings, "\n"))
				}
				return
			}
			for _, f := range findings {
				rest, ours := strings.CutPrefix(f, file+":")
				rest, isRule := strings.CutSuffix(rest, " ("+test.rule+")")
				place, message, _ := strings.Cut(rest, ": ")
				if ours && isRule && strings.HasPrefix(message, test.severity+": ") && strings.Contains(lineAt(t, text, place), test.at) {
					return
				}
			}
			t.Errorf("no %s of %s at a line with %q:\n%s", test.severity, test.rule, test.at, strings.Join(findings, "\n"))
		})
	}
}

// check runs `extproc check --envoy FILE` and returns what it finds, a line each, and the exit code.
func check(t *testing.T, file string) (findings []string, code int) {
	t.Helper()
	var stderr strings.Builder
	code = app.Run(t.Context(), []string{"check", "--envoy", file}, io.Discard, &stderr)
	for line := range strings.Lines(stderr.String()) {
		findings = append(findings, strings.TrimSpace(line))
	}
	return findings, code
}

// lineAt returns the line of a place "LINE:COLUMN".
func lineAt(t *testing.T, text []byte, place string) string {
	t.Helper()
	number, _, _ := strings.Cut(place, ":")
	n, err := strconv.Atoi(number)
	lines := strings.Split(string(text), "\n")
	if err != nil || n < 1 || n > len(lines) {
		t.Fatalf("place %q", place)
	}
	return lines[n-1]
}

// proxyProtocol says a client's address to the upstream in a version of the PROXY protocol. Version 1 ends
// Envoy at the first request, so no test sends one.
func proxyProtocol(version string) stack.Patch {
	return stack.NewPatch("upstream_proxy_protocol "+version, stack.Set(stack.Cluster("app")+"/transport_socket", fmt.Sprintf(
		`{name: pp, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport, config: {version: %s}, transport_socket: {name: raw, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}}}}`, version)))
}
