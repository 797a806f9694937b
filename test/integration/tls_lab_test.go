package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/test/pki"
	"github.com/verdictproxy/verdict/test/stack"
)

// tlsLab are the authorities and files of Envoy and of Verdict's data plane.
type tlsLab struct {
	dir              string // of every file
	servers, clients *pki.Authority
}

func newTLSLab(t *testing.T) *tlsLab {
	t.Helper()
	l := &tlsLab{dir: t.TempDir(), servers: pki.NewAuthority(t, "servers"), clients: pki.NewAuthority(t, "clients")}
	l.servers.Server(t, "verdict.example").Write(t, l.dir, "server")
	l.clients.Client(t, "envoy.example").Write(t, l.dir, "client")
	pki.WriteFile(t, l.dir+"/servers.pem", l.servers.PEM)
	pki.WriteFile(t, l.dir+"/clients.pem", l.clients.PEM)
	for _, name := range []string{"client.yaml", "authority.yaml"} {
		pki.WriteFile(t, filepath.Join(l.dir, name), []byte(l.example(t, name)))
	}
	return l
}

// example is a file of envoy/tls with the lab's paths in it.
func (l *tlsLab) example(t *testing.T, name string) string {
	t.Helper()
	hop, err := stack.HopFile()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(hop), "tls", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "/etc/envoy/tls", l.dir)
}

// config is Verdict's.
func (l *tlsLab) config() string {
	return fmt.Sprintf(`listeners: {data_plane: {tls: {cert_file: %[1]s/server.crt, key_file: %[1]s/server.key, client_ca_file: %[1]s/clients.pem}, allowed_clients: [envoy.example]}}`, l.dir)
}

// transportSocket is the one of envoy/tls/cluster.yaml, changed.
func (l *tlsLab) transportSocket(t *testing.T, change func(typedConfig map[string]any)) string {
	t.Helper()
	var cluster map[string]map[string]any
	if err := yaml.Unmarshal([]byte(l.example(t, "cluster.yaml")), &cluster); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(cluster["transport_socket"]["typed_config"].(map[string]any))
	}
	text, err := yaml.Marshal(cluster["transport_socket"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// patch gives the cluster `verdict` what envoy/tls/cluster.yaml says.
func (l *tlsLab) patch(t *testing.T, change func(map[string]any)) stack.Patch {
	t.Helper()
	return stack.NewPatch("TLS to Verdict", stack.Set("node", `{id: envoy, cluster: edge}`), stack.Set(stack.Cluster("verdict")+"/transport_socket", l.transportSocket(t, change)))
}

// elsewhere is a Verdict on another machine.
var elsewhere = stack.NewPatch("Verdict elsewhere", stack.Set(stack.Cluster("verdict")+"/load_assignment",
	`{cluster_name: verdict, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.7, port_value: 9002}}}}]}]}`))
