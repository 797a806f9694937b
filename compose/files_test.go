// Package compose_test holds what docker-compose.yml mounts to the files of envoy/ that it is made of.
package compose_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/internal/app"
	"github.com/verdictproxy/verdict/test/stack"
)

// rendered is what Envoy's container runs.
func rendered(t *testing.T) []byte {
	t.Helper()
	var out, complaints bytes.Buffer
	render := exec.Command("bash", "envoy/render.sh", "../../envoy")
	render.Stdout, render.Stderr = &out, &complaints
	if err := render.Run(); err != nil || complaints.Len() > 0 {
		t.Fatalf("%v\n%s", err, &complaints)
	}
	return out.Bytes()
}

const (
	dns   = `{name: envoy.cluster.dns, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster, dns_lookup_family: V4_ONLY, dns_refresh_rate: 0.5s}}`
	trust = `{name: envoy.transport_sockets.tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {validation_context: {trusted_ca: {filename: /etc/ssl/certs/ca-certificates.crt}}}}}`
	none  = `{thresholds: [{max_connections: 0, max_pending_requests: 0, max_requests: 0}]}`
)

// It is what the patches make of the same files with which demo and tests run Envoy: addresses, a cluster for
// each scenario that needs one, the credential filters, TLS. Nothing else differs from hop.yaml.
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
	text, err := os.ReadFile("../envoy/tls/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Socket any `yaml:"transport_socket"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	socket, err := yaml.Marshal(file.Socket)
	if err != nil {
		t.Fatal(err)
	}
	edits := []stack.Edit{
		stack.Set("node", "{id: envoy, cluster: edge}"),
		stack.Set(stack.Cluster("verdict")+"/transport_socket", string(socket)),
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
	var differs []string // only that: the whole has 1000 lines
	for line := range strings.Lines(cmp.Diff(want, got)) {
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
			differs = append(differs, line)
		}
	}
	if len(differs) > 0 {
		t.Errorf("compose/envoy does not follow envoy/: want -, got +:\n%s", strings.Join(differs, ""))
	}
}

// Envoy takes the file without a warning, and so does `extproc check` together with Verdict's own, but for
// the one that speaks of the network to the token endpoint, which is compose's own here.
func TestEnvoyAndCheckAcceptIt(t *testing.T) {
	dir := t.TempDir()
	for _, from := range []string{"../envoy/tls", "envoy/tls"} {
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	// As they are mounted, but in a folder of the test.
	moved := func(name string, text []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("/etc/envoy/tls"), []byte(dir)), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, name := range []string{"client.yaml", "authority.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		moved(name, text)
	}
	file := moved("envoy.yaml", rendered(t))
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
		if !strings.Contains(line, "allow_http") {
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

// The keys of the demo: -update makes new ones.
var update = flag.Bool("update", false, "make new keys and certificates")

// keys are the files of each side: its own certificate and key, and the authority of the other one's.
var keys = []struct{ name, cert, key, authority string }{
	{"verdict.example", "verdict/tls/server.crt", "verdict/tls/server.key", "envoy/tls/servers.pem"},
	{"envoy.example", "envoy/tls/client.crt", "envoy/tls/client.key", "verdict/tls/clients.pem"},
}

// Certificates and keys fit together, have the names that envoy/tls and verdict.yaml ask for, and will do for
// years.
func TestKeys(t *testing.T) {
	for _, k := range keys {
		if *update {
			makeKeys(t, k.name, k.cert, k.key, k.authority)
		}
		pair, err := tls.LoadX509KeyPair(k.cert, k.key)
		if err != nil {
			t.Fatal(err)
		}
		authority, err := os.ReadFile(k.authority)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(authority) {
			t.Fatalf("%s: no certificate", k.authority)
		}
		for _, when := range []time.Time{time.Now(), time.Now().AddDate(5, 0, 0)} {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: k.name, CurrentTime: when, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			if err != nil {
				t.Errorf("%s at %s: %v", k.cert, when, err)
			}
		}
	}
}

// makeKeys makes an authority, signs one certificate, and forgets the authority's key.
func makeKeys(t *testing.T, name, certFile, keyFile, authorityFile string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	from, to := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "compose demo: " + name}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to, DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	must(err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &leafKey.PublicKey, rootKey)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	must(err)
	for _, file := range []struct {
		name, kind string
		der        []byte
	}{{authorityFile, "CERTIFICATE", rootDER}, {certFile, "CERTIFICATE", leafDER}, {keyFile, "PRIVATE KEY", keyDER}} {
		must(os.MkdirAll(filepath.Dir(file.name), 0o755))
		must(os.WriteFile(file.name, pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der}), 0o644))
	}
}
