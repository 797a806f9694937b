// Package compose_test holds what docker-compose.yml mounts to the files of envoy/ that it is made of.
package compose_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/internal/app"
	"github.com/verdictproxy/verdict/test/stack"
)

// rendered is what Envoy's container runs: envoy/hop.yaml and envoy/credential.yaml by way of two sed scripts.
func rendered(t *testing.T) []byte {
	t.Helper()
	run := func(stdin io.Reader, args ...string) *bytes.Buffer {
		var out, complaints bytes.Buffer
		sed := exec.Command("sed", args...)
		sed.Dir, sed.Stdin, sed.Stdout, sed.Stderr = "envoy", stdin, &out, &complaints
		if err := sed.Run(); err != nil {
			t.Fatalf("sed %q: %v\n%s", args, err, &complaints)
		}
		return &out
	}
	filters := run(nil, "-n", "-E", "-f", "credential.sed", "../../envoy/credential.yaml")
	return run(filters, "-E", "-f", "hop.sed", "../../envoy/hop.yaml").Bytes()
}

const (
	dns   = `{name: envoy.cluster.dns, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster, dns_lookup_family: V4_ONLY, dns_refresh_rate: 0.5s}}`
	trust = `{name: envoy.transport_sockets.tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {validation_context: {trusted_ca: {filename: /etc/ssl/certs/ca-certificates.crt}}}}}`
	none  = `{thresholds: [{max_connections: 0, max_pending_requests: 0, max_requests: 0}]}`
)

// It is what the patches make of the same two files with which demo and tests run Envoy: addresses, a cluster
// for each scenario that needs one, the credential filters. Nothing else differs from hop.yaml.
func TestHopIsWhatDemoAndTestsRun(t *testing.T) {
	at := func(host string, port int) string {
		return fmt.Sprintf("{socket_address: {address: %s, port_value: %d}}", host, port)
	}
	endpoints := func(cluster string, port int, hosts ...string) stack.Edit {
		var all []string
		for _, host := range hosts {
			all = append(all, "{endpoint: {address: "+at(host, port)+"}}")
		}
		return stack.Set(stack.Cluster(cluster)+"/load_assignment",
			fmt.Sprintf("{cluster_name: %s, endpoints: [{lb_endpoints: [%s]}]}", cluster, strings.Join(all, ", ")))
	}
	edits := []stack.Edit{
		stack.Set("admin/address", at("0.0.0.0", 9901)),
		stack.Set(stack.Listener("outer")+"/address", at("0.0.0.0", 10000)),
		endpoints("verdict", 9002, "verdict-1", "verdict-2"),
		endpoints("app", 8080, "upstream"), endpoints("app-h2", 8081, "upstream"), endpoints("app-tls", 8443, "upstream"),
	}
	for _, cluster := range []string{"verdict", "app", "app-h2", "app-tls"} {
		edits = append(edits, stack.Set(stack.Cluster(cluster)+"/cluster_type", dns))
	}
	edits = append(edits,
		stack.AddUpstream("closed", "upstream:8099", "", ""),
		stack.AddUpstream("late", "upstream:8090", "", ""),
		stack.AddUpstream("overflow", "upstream:8080", "{circuit_breakers: "+none+"}", ""),
		stack.AddUpstream("tls-other-ca", "upstream:8443", "{transport_socket: "+trust+"}", ""),
		stack.AddUpstream("no-route", "", "", "{match: {path: /nothing/else/matches}}"),
		stack.AddUpstream("flood", "upstream:8080", "", ""),
		stack.AddUpstream("credential", "upstream:8080", "", ""),
	)
	wanted, err := stack.Render(nil, stack.NewPatch("compose", edits...), stack.Credential(stack.FirstFromVerdict, "credential"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := yaml.Unmarshal(rendered(t), &got); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(wanted, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// Envoy takes the file without a warning, and so does `extproc check` together with Verdict's own, but for
// the two that speak of a network, which is compose's own here: to Verdict, and to the token endpoint.
func TestEnvoyAndCheckAcceptIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, rendered(t), 0o600); err != nil {
		t.Fatal(err)
	}
	envoy, err := stack.FindEnvoy(stack.EnvoyVersion)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(envoy, "--mode", "validate", "--disable-hot-restart", "--log-level", "warning", "-c", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "[warning]") {
		t.Errorf("%v\n%s", err, out)
	}
	var stdout, stderr bytes.Buffer
	if code := app.Run(t.Context(), []string{"check", "verdict/verdict.yaml", "--envoy", file}, &stdout, &stderr); code != 0 {
		t.Errorf("extproc check: exit code %d", code)
	}
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasSuffix(line, "(plaintext)\n") && !strings.Contains(line, "allow_http") {
			t.Errorf("extproc check: %s", line)
		}
	}
	for _, want := range []string{"backend: redis", "address: valkey:6379"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, &stdout)
		}
	}
}

// Verdict reads one file, so it is a copy with something below it.
func TestVerdictBeginsWithTheDemosFile(t *testing.T) {
	demo, err := os.ReadFile("../envoy/verdict.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile("verdict/verdict.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(ours, demo) {
		t.Error("compose/verdict/verdict.yaml does not begin with envoy/verdict.yaml: copy it there, above what compose adds")
	}
}
