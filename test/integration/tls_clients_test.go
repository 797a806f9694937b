package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/verdictproxy/verdict/test/pki"
)

// TestTLSPrograms: clients with TLS libraries of their own: Go's (grpcurl), gRPC's own (Python), OpenSSL (HTTPS).
func TestTLSPrograms(t *testing.T) {
	t.Parallel()
	lab := newTLSLab(t)
	lab.clients.Client(t, "spiffe://example.org/program").Write(t, lab.dir, "program")
	lab.clients.Client(t, "other.example").Write(t, lab.dir, "other")
	const listener = `{tls: {cert_file: %[1]s/server.crt, key_file: %[1]s/server.key, client_ca_file: %[1]s/clients.pem}, allowed_clients: ["spiffe://example.org/program"]}`
	config := pki.WriteFile(t, filepath.Join(lab.dir, "verdict.yaml"),
		fmt.Appendf(nil, "listeners: {api: "+listener+", admin: "+listener+"}\n", lab.dir))
	api, admin := serveTLS(t, "--config="+config)

	grpcurl, ca := tool(t, "grpcurl"), lab.dir+"/servers.pem"
	pair := func(name string) []string {
		return []string{lab.dir + "/" + name + ".crt", lab.dir + "/" + name + ".key"}
	}
	own := pair("program")
	wantOutput(t, true, []string{"retry.v1.DecisionService"}, grpcurl, "-cacert", ca, "-cert", own[0], "-key", own[1], "-servername", "verdict.example", api, "list")
	wantOutput(t, true, []string{"retry.v1.AdminService"}, grpcurl, "-cacert", ca, "-cert", own[0], "-key", own[1], admin, "list")

	python := tool(t, "python", "bin", "python")
	script, err := filepath.Abs("testdata/api/tls.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		pair  []string
		wants []string
	}{
		{own, []string{"api SERVING", "admin 200"}},
		{pair("other"), []string{"api UNAVAILABLE", "admin refused"}},
		{nil, []string{"api UNAVAILABLE", "admin refused"}},
	} {
		wantOutput(t, true, test.wants, python, append([]string{script, api, admin, ca}, test.pair...)...)
	}
}

// serveTLS starts Verdict with no Envoy in front, on ports of the loopback address.
func serveTLS(t *testing.T, args ...string) (api, admin string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	logged := func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	}
	cmd := exec.Command(extproc, append([]string{"serve", "--drain-time=0s", "--data-plane=127.0.0.1:0", "--admin=127.0.0.1:0", "--api=127.0.0.1:0"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("extproc serve: %v\n%s", err, logged())
		}
	})
	serving := regexp.MustCompile(`msg=serving .*admin=(\S+) api=(\S+)`)
	waitFor(t, "it serves", func() bool { return serving.MatchString(logged()) })
	found := serving.FindStringSubmatch(logged())
	return found[2], found[1]
}
