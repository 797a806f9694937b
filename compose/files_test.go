// Package compose_test holds what docker-compose.yml mounts to the files of envoy/ that it is made of.
package compose_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/internal/app"
	"github.com/verdictproxy/verdict/test/stack"
)

// rendered is what Envoy's container runs: envoy/hop.yaml as hop.sed changes it.
func rendered(t *testing.T) string {
	t.Helper()
	sed := exec.Command("sed", "-E", "-f", "hop.sed", "../../envoy/hop.yaml")
	sed.Dir = "envoy"
	text, err := sed.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Everything that hop.sed is to change is changed, and nothing else: each line of hop.yaml is still there,
// but for its address.
func TestHopIsChangedInItsAddressesOnly(t *testing.T) {
	hop, err := os.ReadFile("../envoy/hop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	after := strings.Split(rendered(t), "\n")
	added, changed := 0, 0
	for _, line := range strings.Split(string(hop), "\n") {
		want, _, address := strings.Cut(line, "socket_address: {address: 127.0.0.1")
		if address {
			changed++
		}
		for len(after) > 0 && (after[0] != line && !address || address && !strings.HasPrefix(after[0], want)) {
			after = after[1:]
			added++
		}
		if len(after) == 0 {
			t.Fatalf("hop.sed has lost or changed %q", line)
		}
		if address && after[0] == line {
			t.Errorf("hop.sed leaves %q", line)
		}
		after = after[1:]
	}
	if changed != 6 || added == 0 {
		t.Errorf("%d addresses of hop.yaml are changed, %d lines added", changed, added)
	}

	var config struct {
		Static struct {
			Clusters []struct {
				Name string
				Type struct{ Name string } `yaml:"cluster_type"`
				Load struct {
					Endpoints []struct {
						LB []any `yaml:"lb_endpoints"`
					}
				} `yaml:"load_assignment"`
			}
		} `yaml:"static_resources"`
	}
	if err := yaml.Unmarshal([]byte(rendered(t)), &config); err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Static.Clusters {
		replicas := 1
		if c.Name == "verdict" {
			replicas = 2
		}
		if len(c.Load.Endpoints) != 1 || len(c.Load.Endpoints[0].LB) != replicas {
			t.Errorf("cluster %s: endpoints %v", c.Name, c.Load.Endpoints)
		}
		if c.Name != "attempts" && c.Type.Name != "envoy.cluster.dns" {
			t.Errorf("cluster %s is not found by name", c.Name)
		}
	}
}

// Envoy takes the file without a warning, and so does `extproc check` together with Verdict's own, but for
// the one that Verdict is reached across a network, which is compose's own here.
func TestEnvoyAndCheckAcceptIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, []byte(rendered(t)), 0o600); err != nil {
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
		if !strings.HasSuffix(line, "(plaintext)\n") {
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
