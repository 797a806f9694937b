package app

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// TestCheckTLS: what the configuration says of the data plane, and how Envoy calls it, must fit.
func TestCheckTLS(t *testing.T) {
	const (
		none   = "{}\n"
		tls    = "listeners: {data_plane: {tls: {cert_file: a, key_file: b}}}\n"
		mutual = "listeners: {data_plane: {tls: {cert_file: a, key_file: b, client_ca_file: c}}}\n"

		socket = `{name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {%}}}`
	)
	render := func(common string) string {
		var patches []stack.Patch
		if common != "-" {
			patches = append(patches, stack.NewPatch("TLS", stack.Set(stack.Cluster("verdict")+"/transport_socket", strings.ReplaceAll(socket, "%", common))))
		}
		text, err := stack.Render(nil, patches...)
		if err != nil {
			t.Fatal(err)
		}
		return file(t, string(text))
	}
	plain, anonymous := render("-"), render("")
	named, fetched := render("tls_certificates: [{certificate_chain: {filename: c}}]"), render("tls_certificate_sds_secret_configs: [{name: c}]")
	for _, test := range []struct{ name, config, envoy, want string }{
		{"plaintext", none, plain, ""},
		{"TLS", tls, anonymous, ""},
		{"TLS and a certificate that nobody wants", tls, named, ""},
		{"mTLS", mutual, named, ""},
		{"mTLS by SDS", mutual, fetched, ""},
		{"Envoy alone", none, anonymous, `cluster "verdict" speaks TLS to Verdict, and listeners.data_plane has no tls`},
		{"Verdict alone", tls, plain, `cluster "verdict" speaks plaintext to Verdict, and listeners.data_plane has tls`},
		{"no certificate", mutual, anonymous, `cluster "verdict" shows Verdict no certificate, and listeners.data_plane asks for one`},
	} {
		code, _, errors := check(t, file(t, test.config), "--envoy", test.envoy)
		if code != 0 || !strings.Contains(errors, test.want) || (test.want == "") != (errors == "") || strings.Count(errors, "\n") > 1 {
			t.Errorf("%s: exit code %d, want %q:\n%s", test.name, code, test.want, errors)
		}
		if errors != "" && !strings.HasPrefix(errors, test.envoy+":") {
			t.Errorf("%s: no place in %s", test.name, errors)
		}
	}
	if code, _, errors := check(t, "--envoy", anonymous); code != 0 || errors != "" {
		t.Errorf("without a configuration: exit code %d, %s", code, errors)
	}
}
