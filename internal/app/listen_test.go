package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/test/pki"
)

// TestServicesPerListener: by reflection, and by calls, what is on one listener is not on another.
func TestServicesPerListener(t *testing.T) {
	t.Parallel()
	api := filepath.Join(t.TempDir(), "api")
	p := serve(t, "--api=unix:"+api, "--drain-time=0s")
	own := map[string][]string{
		"data plane": {"envoy.service.accesslog.v3.AccessLogService", "envoy.service.ext_proc.v3.ExternalProcessor"},
		"api":        {"retry.v1.BudgetService", "retry.v1.DecisionService", "retry.v1.LedgerService"},
		"admin":      {"retry.v1.AdminService", "retry.v1.BudgetService", "retry.v1.DecisionService", "retry.v1.LedgerService"},
	}
	all := map[string]string{
		"envoy.service.accesslog.v3.AccessLogService": "StreamAccessLogs", "envoy.service.ext_proc.v3.ExternalProcessor": "Process",
		"retry.v1.AdminService": "GetDrained", "retry.v1.BudgetService": "List", "retry.v1.DecisionService": "Decide", "retry.v1.LedgerService": "List",
	}
	for name, address := range map[string]string{"data plane": p.dataPlane, "api": api, "admin": p.admin} {
		conn := dial(t, address)
		want := append([]string{"grpc.health.v1.Health"}, own[name]...)
		slices.Sort(want)
		if got := services(t, conn); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
		for service, method := range all {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/"+service+"/"+method)
			if err == nil {
				stream.CloseSend()
				err = stream.RecvMsg(&healthv1.HealthCheckRequest{})
			}
			cancel()
			if there := slices.Contains(own[name], service); (status.Code(err) == codes.Unimplemented) == there {
				t.Errorf("%s of %s: %v", service, name, err)
			}
		}
	}
}

// TestReachable: each listener that other machines may reach and that does not ask who they are is warned of,
// by what can be done there.
func TestReachable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := pki.NewAuthority(t, "a")
	authority.Server(t).Write(t, dir, "server")
	pki.WriteFile(t, dir+"/clients.pem", authority.PEM)
	files := fmt.Sprintf("cert_file: %[1]s/server.crt, key_file: %[1]s/server.key", dir)
	const anywhere = "0.0.0.0:0"
	for _, test := range []struct {
		name, config string
		args, says   []string
	}{
		{"plaintext", "", []string{"--data-plane=" + anywhere, "--api=" + anywhere, "--admin=" + anywhere}, []string{
			`"a plaintext listener is reachable from other machines: whoever reaches it can fund and spend retry budgets, and enter uncertain outcomes" listener=data_plane`,
			`can fund and spend retry budgets, and read and resolve uncertain outcomes" listener=api`,
			`can deny all retries, fund and spend retry budgets, read what was decided, and resolve uncertain outcomes" listener=admin`,
		}},
		{"TLS alone", "listeners: {api: {tls: {" + files + "}}}", []string{"--api=" + anywhere}, []string{
			`a listener that asks for no client certificate is reachable from other machines: whoever reaches it can fund`,
		}},
		{"mTLS", "listeners: {api: {tls: {" + files + ", client_ca_file: " + dir + "/clients.pem}}}", []string{"--api=" + anywhere}, nil},
		{"loopback and a Unix socket", "", []string{"--api=unix:" + dir + "/api"}, nil},
		{"no API", "listeners: {api: {tls: {" + files + "}}}", nil, []string{"listeners.api holds for nothing"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, append(test.args, "--drain-time=0s", "--config="+file(t, test.config))...)
			if got := strings.Count(p.log.String(), "level=WARN"); got != len(test.says) {
				t.Errorf("%d warnings, want %d\n%s", got, len(test.says), p.log)
			}
			for _, words := range test.says {
				if !strings.Contains(p.log.String(), words) {
					t.Errorf("no %s in\n%s", words, p.log)
				}
			}
		})
	}
}

// TestListenerErrors: a file that cannot be used is named with its field, and ends the program.
func TestListenerErrors(t *testing.T) {
	t.Parallel()
	config := file(t, "listeners: {admin: {tls: {cert_file: /nowhere/a, key_file: /nowhere/b}}}")
	code, _, errors := command(t, "serve", "--data-plane=127.0.0.1:0", "--admin=127.0.0.1:0", "--config="+config)
	if code != 1 || !strings.Contains(errors, "listeners.admin.tls.cert_file: open /nowhere/a: no such file") {
		t.Errorf("exit code %d: %s", code, errors)
	}
	for _, mode := range []string{"rw", "1000", "-1", "8", ""} {
		if code, _, errors := command(t, "serve", "--socket-mode="+mode); code != 2 || !strings.Contains(errors, "octal") {
			t.Errorf("mode %q: exit code %d: %s", mode, code, errors)
		}
	}
}

// TestSocketModeFlag: a Unix socket is its owner's alone unless the operator says otherwise.
func TestSocketModeFlag(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]os.FileMode{"": 0o600, "--socket-mode=660": 0o660, "--socket-mode=0666": 0o666} {
		path := filepath.Join(t.TempDir(), "data")
		args := []string{"--data-plane=unix:" + path, "--drain-time=0s"}
		if flag != "" {
			args = append(args, flag)
		}
		serve(t, args...)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v", flag, info.Mode(), err)
		}
	}
}
