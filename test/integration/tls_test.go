package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/test/pki"
	"github.com/verdictproxy/verdict/test/stack"
)

// TestTLS: with the files of envoy/tls Envoy asks Verdict by mutual TLS: health check, judge and access log.
func TestTLS(t *testing.T) {
	t.Parallel()
	for _, version := range []string{stack.EnvoyVersion, stack.OldestEnvoy} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			testTLS(t, version)
		})
	}
}

func testTLS(t *testing.T, version string) {
	lab := newTLSLab(t)
	s := start(t, stack.Options{Envoy: version, Config: lab.config(), Patches: []stack.Patch{lab.patch(t, nil)}})
	a := s.Do(stack.Request{Method: "POST", Target: "/pay", Fault: "reset"})
	if got := a.Report(); got.Verdict != "ambiguous" || got.Reason != "sent_no_response" {
		t.Errorf("%+v", got)
	}
	if a := s.Do(stack.Request{Fault: "reset, ok"}); a.Status != 200 || len(s.Upstream.Hits(a.ID)) != 2 {
		t.Errorf("status %d, %d hits", a.Status, len(s.Upstream.Hits(a.ID)))
	}
	waitFor(t, "the access log tells of both first attempts", func() bool {
		return s.ServiceMetric(0, "verdict_first_attempts_total") == 2
	})
	if s.ClusterStat("verdict", "ssl.versions.TLSv1.3") == 0 {
		t.Error("it was not TLS 1.3")
	}
	for line := range strings.Lines(s.EnvoyLog()) {
		if !strings.Contains(line, "limit to the number of allowed active downstream connections") {
			t.Errorf("Envoy complains: %s", line)
		}
	}
}

// TestTLSClients: which Envoys get through to Verdict, and why the others do not. Each is a cluster like
// `verdict` with a health check of its own.
func TestTLSClients(t *testing.T) {
	t.Parallel()
	lab := newTLSLab(t)
	shows := func(c pki.Certificate) func(*testing.T, map[string]any) {
		return func(t *testing.T, config map[string]any) {
			cert, key := c.Write(t, t.TempDir(), "c")
			common := config["common_tls_context"].(map[string]any)
			delete(common, "tls_certificate_sds_secret_configs")
			common["tls_certificates"] = []any{map[string]any{"certificate_chain": map[string]any{"filename": cert}, "private_key": map[string]any{"filename": key}}}
		}
	}
	without := func(field string) func(*testing.T, map[string]any) {
		return func(_ *testing.T, config map[string]any) {
			delete(config["common_tls_context"].(map[string]any), field)
		}
	}
	believes := func(validation string) func(*testing.T, map[string]any) {
		return func(t *testing.T, config map[string]any) {
			var context map[string]any
			if err := yaml.Unmarshal([]byte(validation), &context); err != nil {
				t.Fatal(err)
			}
			common := config["common_tls_context"].(map[string]any)
			delete(common, "combined_validation_context")
			common["validation_context"] = context
		}
	}
	trust := func(file, name string) string {
		return fmt.Sprintf(`{trusted_ca: {filename: %s/%s}, match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: %s}}]}`, lab.dir, file, name)
	}
	client := func(name string, changes ...pki.Change) pki.Certificate {
		return lab.clients.Client(t, name, changes...)
	}
	tests := []struct {
		name   string
		change func(*testing.T, map[string]any)
		why    string // verdict_refused_connections_total's; "" gets through
	}{
		{"named-files", shows(client("envoy.example")), ""},
		{"own-versions", without("tls_params"), ""}, // at most TLS 1.2
		{"no-alpn", without("alpn_protocols"), ""},
		{"believes-files", believes(trust("servers.pem", "verdict.example")), ""},
		{"plaintext", nil, "not_tls"},
		{"no-certificate", without("tls_certificate_sds_secret_configs"), "no_certificate"},
		{"other-authority", shows(pki.NewAuthority(t, "strangers").Client(t, "envoy.example")), "unknown_authority"},
		{"expired", shows(client("envoy.example", pki.Expired)), "out_of_time"},
		{"not-yet-valid", shows(client("envoy.example", pki.NotYetValid)), "out_of_time"},
		{"for-servers", shows(client("envoy.example", pki.ForServers)), "bad_certificate"},
		{"unlisted", shows(client("other.example")), "unlisted"},
		{"other-server-name", believes(trust("servers.pem", "other.example")), "by_client"},
		{"other-server-authority", believes(trust("clients.pem", "verdict.example")), "by_client"},
	}
	patch := stack.Patch{Name: "clusters like verdict", Apply: func(c *stack.Config) error {
		for _, test := range tests {
			at, err := c.Get(stack.Cluster("verdict"))
			if err != nil {
				return err
			}
			cluster := maps.Clone(at.(map[string]any))
			cluster["name"] = test.name
			delete(cluster, "transport_socket")
			if test.change != nil {
				var socket map[string]any
				if err := yaml.Unmarshal([]byte(lab.transportSocket(t, func(config map[string]any) { test.change(t, config) })), &socket); err != nil {
					return err
				}
				cluster["transport_socket"] = socket
			}
			text, err := yaml.Marshal(cluster)
			if err != nil {
				return err
			}
			if err := stack.Append("static_resources/clusters", string(text))(c); err != nil {
				return err
			}
		}
		return nil
	}}
	s := start(t, stack.Options{Config: lab.config(), Patches: []stack.Patch{lab.patch(t, nil), patch}})
	for _, test := range tests {
		if test.why == "" {
			s.WaitStat("cluster."+test.name+".membership_healthy", 1)
			continue
		}
		s.WaitStat("cluster."+test.name+".health_check.failure", 2)
		if s.ClusterStat(test.name, "membership_healthy") != 0 || s.ClusterStat(test.name, "health_check.success") != 0 {
			t.Errorf("%s gets through", test.name)
		}
		waitFor(t, test.name+" is counted as "+test.why, func() bool {
			return s.ServiceMetric(0, "verdict_refused_connections_total", "listener=data_plane", "why="+test.why) > 0
		})
	}
	if s.ClusterStat("own-versions", "ssl.versions.TLSv1.2") == 0 {
		t.Error("Envoy's own choice is no longer TLS 1.2, as envoy/tls/cluster.yaml and the schema say")
	}
	// Beside all of these the listed one is served.
	if a := s.Do(stack.Request{Fault: "reset, ok"}); a.Status != 200 {
		t.Errorf("status %d, %+v", a.Status, a.Report())
	}
}

// TestTLSRefused: an Envoy that Verdict does not admit lets traffic flow, and nothing is retried.
func TestTLSRefused(t *testing.T) {
	t.Parallel()
	lab := newTLSLab(t)
	lab.clients.Client(t, "other.example").Write(t, lab.dir, "client")
	s := start(t, stack.Options{Config: lab.config(), Down: true, Patches: []stack.Patch{lab.patch(t, nil)}})
	s.RestartService(0)
	waitFor(t, "Envoy has been refused", func() bool {
		return s.ServiceMetric(0, "verdict_refused_connections_total", "why=unlisted") > 0
	})
	if a := s.Do(stack.Request{}); a.Status != 200 {
		t.Errorf("a healthy request: status %d", a.Status)
	}
	a := s.Do(stack.Request{Fault: "reset"})
	wantHits(t, s, a, 1, 1)
	a = s.Do(stack.Request{Method: "POST", Fault: "reset"})
	wantHits(t, s, a, 1, 1)
	if got := a.Report(); got.Verdict != "ambiguous" || got.Reason != "no_evidence" {
		t.Errorf("%+v", got)
	}
}
