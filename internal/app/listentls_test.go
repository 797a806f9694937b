package app

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/verdictproxy/verdict/test/pki"
)

// secured is a program whose listeners ask for certificates, and admit one client each.
type secured struct {
	*program
	api     string
	dir     string
	servers *pki.Authority
	clients *pki.Authority
}

func serveTLS(t *testing.T) *secured {
	t.Helper()
	s := &secured{dir: t.TempDir(), servers: pki.NewAuthority(t, "servers"), clients: pki.NewAuthority(t, "clients")}
	s.servers.Server(t, "verdict.example").Write(t, s.dir, "server")
	pki.WriteFile(t, s.dir+"/servers.pem", s.servers.PEM)
	pki.WriteFile(t, s.dir+"/clients.pem", s.clients.PEM)
	for _, name := range []string{"envoy", "caller", "operator", "nobody"} {
		s.clients.Client(t, name).Write(t, s.dir, name)
	}
	config := s.config("data_plane", "envoy") + s.config("api", "caller") + s.config("admin", "operator")
	s.api = "unix:" + s.dir + "/api"
	s.program = serve(t, "--config="+pki.WriteFile(t, s.dir+"/verdict.yaml", []byte("listeners:\n"+config)), "--api="+s.api, "--drain-time=0s")
	return s
}

// config is a listener's, which admits one client.
func (s *secured) config(listener, client string) string {
	return fmt.Sprintf("  %s: {tls: {cert_file: %[2]s/server.crt, key_file: %[2]s/server.key, client_ca_file: %[2]s/clients.pem}, allowed_clients: [%[3]s]}\n", listener, s.dir, client)
}

// flags are a command's for a client with this certificate; "" has none.
func (s *secured) flags(client string) []string {
	flags := []string{"--tls-ca=" + s.dir + "/servers.pem", "--tls-server-name=verdict.example"}
	if client != "" {
		flags = append(flags, "--tls-cert="+s.dir+"/"+client+".crt", "--tls-key="+s.dir+"/"+client+".key")
	}
	return flags
}

// TestAllowLists: each listener admits its own client and no other, to everything that is there.
func TestAllowLists(t *testing.T) {
	t.Parallel()
	s := serveTLS(t)
	decide := []string{"decide", "--method=GET", "--stage=dns", "--server=" + s.api}
	list := []string{"ledger", "list", "--server=" + s.admin}
	health := func(client string) error {
		flags := TLSFlags{TLSCA: s.dir + "/servers.pem", TLSCert: s.dir + "/" + client + ".crt", TLSKey: s.dir + "/" + client + ".key"}
		return flags.call(s.dataPlane, func(conn *grpc.ClientConn) error {
			_, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
			return err
		})
	}
	for client, admitted := range map[string]string{"envoy": "data_plane", "caller": "api", "operator": "admin", "nobody": ""} {
		if err := health(client); (err == nil) != (admitted == "data_plane") {
			t.Errorf("%s on the data plane: %v", client, err)
		}
		for name, args := range map[string][]string{"api": decide, "admin": list} {
			code, out, errors := command(t, slices.Concat(args, s.flags(client))...)
			if (code == 0) != (admitted == name) {
				t.Errorf("%s on %s: exit code %d\n%s%s", client, name, code, out, errors)
			}
		}
		// The admin listener's pages are behind the same handshake, by HTTP/1.1 and HTTP/2.
		for _, major := range []int{1, 2} {
			body, err := s.page(t, client, major)
			if (err == nil) != (admitted == "admin") {
				t.Errorf("%s by HTTP/%d: %v", client, major, err)
			}
			if admitted == "admin" && !strings.Contains(body, `verdict_refused_connections_total{listener="api",why="unlisted"}`) {
				t.Errorf("no metric of refused connections in\n%.500s", body)
			}
		}
	}
	if code, _, errors := command(t, slices.Concat([]string{"drain", "--all", "--server=" + s.admin}, s.flags("operator"))...); code != 0 {
		t.Error(errors)
	}
	log := s.log.String()
	if strings.Contains(log, "reachable from other machines") {
		t.Errorf("a warning of plaintext: %s", log)
	}
	if !strings.Contains(log, `tls="[admin api data_plane]"`) {
		t.Errorf("it is not said where there is TLS: %s", log)
	}
	if !strings.Contains(log, "on=true caller=operator") {
		t.Errorf("it is not said who has set the kill switch: %s", log)
	}
}

// page gets the metrics as a client with this certificate.
func (s *secured) page(t *testing.T, client string, major int) (string, error) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(s.dir+"/"+client+".crt", s.dir+"/"+client+".key")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pki.Pool(s.servers), Certificates: []tls.Certificate{pair}},
		Protocols:       new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(major == 1)
	transport.Protocols.SetHTTP2(major == 2)
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get("https://" + s.admin + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != major || resp.StatusCode != 200 {
		t.Errorf("HTTP/%d, status %d", resp.ProtoMajor, resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// TestClientErrors: what a command says when the two sides do not agree.
func TestClientErrors(t *testing.T) {
	t.Parallel()
	s := serveTLS(t)
	plain := serve(t, "--drain-time=0s")
	stranger := pki.NewAuthority(t, "strangers")
	stranger.Client(t, "operator").Write(t, s.dir, "stranger")
	s.clients.Client(t, "operator", pki.Expired).Write(t, s.dir, "expired")
	ca, name := "--tls-ca="+s.dir+"/servers.pem", "--tls-server-name=verdict.example"
	cert := func(client string) []string {
		return []string{"--tls-cert=" + s.dir + "/" + client + ".crt", "--tls-key=" + s.dir + "/" + client + ".key"}
	}
	for _, test := range []struct {
		name   string
		server string
		flags  []string
		says   []string
	}{
		{"plaintext to TLS", s.admin, nil, []string{"Does the server speak TLS?"}},
		{"TLS to plaintext", plain.admin, s.flags("operator"), []string{"The server speaks plaintext"}},
		{"no certificate", s.admin, []string{ca, name}, []string{"certificate required", "--tls-cert and --tls-key"}},
		{"unlisted", s.admin, s.flags("nobody"), []string{"bad certificate", "has refused the certificate"}},
		{"another authority", s.admin, append(cert("stranger"), ca, name), []string{"certificate required", "of no authority that the server asks for"}},
		{"expired", s.admin, append(cert("expired"), ca, name), []string{"expired certificate", "has refused the certificate"}},
		{"wrong server name", s.admin, append(cert("operator"), ca, "--tls-server-name=other.example"), []string{"not other.example", "--tls-server-name"}},
		{"unknown server", s.admin, append(cert("operator"), name, "--tls-ca="+s.dir+"/clients.pem"), []string{"unknown authority", "--tls-ca"}},
		{"authorities of the system", s.admin, append(cert("operator"), "--tls"), []string{"unknown authority", "--tls-ca"}},
		{"a key without its certificate", s.admin, []string{"--tls-key=" + s.dir + "/server.key"}, []string{"--tls-cert and --tls-key belong together"}},
		{"no such file", s.admin, []string{"--tls-ca=" + s.dir + "/none"}, []string{s.dir + "/none: no such file"}},
		{"no authority", s.admin, []string{"--tls-ca=" + s.dir + "/server.key"}, []string{"no certificate in it"}},
	} {
		code, out, errors := command(t, slices.Concat([]string{"budget", "list", "--server=" + test.server}, test.flags)...)
		if code == 0 || out != "" {
			t.Errorf("%s: exit code %d, %s", test.name, code, out)
		}
		for _, words := range test.says {
			if !strings.Contains(errors, words) {
				t.Errorf("%s: no %q in\n%s", test.name, words, errors)
			}
		}
	}
	for _, address := range []string{"127.0.0.1", s.admin} { // without a name to check, the address counts
		if code, _, errors := command(t, slices.Concat([]string{"budget", "list", "--server=" + s.admin, ca, "--tls-server-name=" + strings.Split(address, ":")[0]}, cert("operator"))...); code != 0 {
			t.Error(errors)
		}
	}
}

// TestListenersReload: a changed file says who may connect from now on; what is no good changes nothing, and
// what cannot change at once is said.
func TestListenersReload(t *testing.T) {
	t.Parallel()
	s := serveTLS(t)
	put := func(config string) {
		pki.WriteFile(t, s.dir+"/verdict.yaml", []byte("listeners:\n"+s.config("data_plane", "envoy")+config))
	}
	said := func(n int, words string) {
		t.Helper()
		s.wait(t, words, func() bool { return strings.Count(s.log.String(), words) == n })
	}
	admitted := func(client string) bool {
		code, _, _ := command(t, slices.Concat([]string{"budget", "list", "--server=" + s.admin}, s.flags(client))...)
		return code == 0
	}
	flags := TLSFlags{TLSCA: s.dir + "/servers.pem", TLSCert: s.dir + "/operator.crt", TLSKey: s.dir + "/operator.key"}
	err := flags.call(s.admin, func(conn *grpc.ClientConn) error {
		ask := func() error {
			_, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
			return err
		}
		if err := ask(); err != nil {
			return err
		}
		put(s.config("api", "caller") + s.config("admin", "nobody"))
		said(1, `msg="configuration reloaded"`)
		if admitted("operator") || !admitted("nobody") {
			t.Error("the new list does not hold")
		}
		return ask() // on the connection that was open before
	})
	if err != nil {
		t.Error(err)
	}
	put(s.config("api", "caller") + strings.Replace(s.config("admin", "operator"), "server.crt", "none.crt", 1))
	said(1, "listeners.admin.tls.cert_file: open "+s.dir+"/none.crt")
	put(s.config("api", "caller") + "  admin: {tls: {cert_file: a, key_file: b}, allowed_clients: [operator]}\n")
	said(1, "listeners.admin.allowed_clients: nobody can be told from another")
	if admitted("operator") || !admitted("nobody") {
		t.Error("the list that was good does not hold")
	}
	put(s.config("api", "caller") + fmt.Sprintf("  admin: {tls: {cert_file: %[1]s/server.crt, key_file: %[1]s/server.key}}\n", s.dir))
	said(1, "fields=[listeners.admin.tls.client_ca_file]")
	if admitted("") || admitted("operator") || !admitted("nobody") {
		t.Error("the admin listener no longer asks who calls")
	}
	put(s.config("admin", "nobody"))
	said(1, "fields=[listeners.api.tls]")
	if code, _, errors := command(t, "decide", "--method=GET", "--stage=dns", "--server="+s.api); code == 0 || !strings.Contains(errors, "Does the server speak TLS?") {
		t.Errorf("the API speaks plaintext now: exit code %d, %s", code, errors)
	}
}

// TestReloadGuardsCredentials: a listener that other machines may reach is not taken for one that asks who they
// are because the next start would make it one.
func TestReloadGuardsCredentials(t *testing.T) {
	t.Parallel()
	r := serveFile(t, nothingDeclared, "--data-plane=0.0.0.0:0")
	r.put("upstreams: [{clusters: [app], credential: {token_file: {path: /run/token}}}]\n" +
		"listeners: {data_plane: {tls: {cert_file: a, key_file: b, client_ca_file: c}}}\n")
	r.logs(1, "the configuration file is refused", "would be given to whoever reaches the data plane")
}

// TestHello: a client that connects and says nothing is hung up on, behind TLS too.
func TestHello(t *testing.T) {
	t.Parallel()
	s := serveTLS(t)
	pair, err := tls.LoadX509KeyPair(s.dir+"/envoy.crt", s.dir+"/envoy.key")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", s.dataPlane, &tls.Config{RootCAs: pki.Pool(s.servers), Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(helloTime + 20*time.Second))
	for {
		if _, err := conn.Read(make([]byte, 1024)); err != nil {
			if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
				t.Error("a silent client is kept")
			}
			return
		}
	}
}
