package integration

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/pki"
	"github.com/verdictproxy/verdict/test/stack"
)

// TestTLSRotation: both sides' certificates and authorities change under load, by the usual steps, while
// Envoy opens a new connection all the time. Every request that needs Verdict gets its answer.
func TestTLSRotation(t *testing.T) {
	t.Parallel()
	lab := newTLSLab(t)
	generous := "\ndefaults: {budget: {min_retries_per_second: 10000}}\n"
	s := start(t, stack.Options{Config: lab.config() + generous, Patches: []stack.Patch{lab.patch(t, nil),
		stack.NewPatch("short connections", stack.Set(stack.HTTPOptions("verdict")+"/common_http_protocol_options/max_connection_duration", "0.2s")),
		stack.NewPatch("patience", // a busy machine is not what is tested
			stack.Set(stack.Cluster("verdict")+"/connect_timeout", "10s"),
			stack.Set(stack.Cluster("verdict")+"/health_checks/0/timeout", "10s"),
			stack.Set(stack.DelegatedConfig("attempts", "judge")+"/message_timeout", "10s"))}})
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var done atomic.Int64
	for range 2 {
		load.Go(func() {
			for ctx.Err() == nil {
				a, err := s.Try(context.Background(), stack.Request{Method: "POST", Target: "/pay", Fault: "429, ok"})
				if err != nil || a.Status != 200 {
					t.Errorf("after %d requests: status %d, %v, %+v", done.Load(), a.Status, err, a.Report())
					return
				}
				done.Add(1)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	// What follows a step begins when connections that were made after it carry the load.
	step := func(what string, change func(), seen func() bool) {
		t.Helper()
		change()
		waitFor(t, what, seen)
		handshakes, before := s.ClusterStat("verdict", "ssl.handshake"), done.Load()
		waitFor(t, "new connections carry the load", func() bool {
			return s.ClusterStat("verdict", "ssl.handshake") > handshakes+1 && done.Load() > before+2
		})
	}
	reads := 0
	verdictHasRead := func() bool { return strings.Count(s.ServiceLog(0), "certificates were read again") > reads }
	sds := s.ClusterStat("verdict", "client_ssl_socket_factory.ssl_context_update_by_sds")
	envoyHasRead := func() bool {
		return s.ClusterStat("verdict", "client_ssl_socket_factory.ssl_context_update_by_sds") > sds
	}
	verdict := func(what string, change func()) {
		t.Helper()
		reads = strings.Count(s.ServiceLog(0), "certificates were read again")
		step("Verdict has read "+what, change, verdictHasRead)
	}
	envoy := func(what string, change func()) {
		t.Helper()
		sds = s.ClusterStat("verdict", "client_ssl_socket_factory.ssl_context_update_by_sds")
		step("Envoy has read "+what, change, envoyHasRead)
	}
	file := func(name string, data ...[]byte) func() {
		var all []byte
		for _, d := range data {
			all = append(all, d...)
		}
		return func() { pki.WriteFile(t, lab.dir+"/"+name, all) }
	}

	verdict("another certificate", func() { lab.servers.Server(t, "verdict.example").Write(t, lab.dir, "server") })
	envoy("another certificate", func() { lab.clients.Client(t, "envoy.example").Write(t, lab.dir, "client") })

	clients, servers := pki.NewAuthority(t, "clients"), pki.NewAuthority(t, "servers")
	verdict("both authorities", file("clients.pem", lab.clients.PEM, clients.PEM))
	envoy("a certificate of the new authority", func() { clients.Client(t, "envoy.example").Write(t, lab.dir, "client") })
	verdict("the new authority", file("clients.pem", clients.PEM))
	envoy("both authorities", file("servers.pem", lab.servers.PEM, servers.PEM))
	verdict("a certificate of the new authority", func() { servers.Server(t, "verdict.example").Write(t, lab.dir, "server") })
	envoy("the new authority", file("servers.pem", servers.PEM))

	stop()
	load.Wait()
	if refused := s.ServiceMetric(0, "verdict_refused_connections_total") - s.ServiceMetric(0, "verdict_refused_connections_total", "why=gone"); refused != 0 {
		t.Errorf("%v connections were refused", refused)
	}
	t.Logf("%d requests over %d connections", done.Load(), s.ClusterStat("verdict", "ssl.handshake"))
}
