package main

import (
	"fmt"

	"github.com/verdictproxy/verdict/test/stack"
)

const (
	healthyRounds   = 9
	healthyRequests = 3000
)

// plain takes everything of Verdict out of Envoy's configuration: one hop, one filter.
var plain = stack.NewPatch("one plain hop", stack.Set(stack.HCM("outer"), `{
  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
  stat_prefix: outer, use_remote_address: true,
  route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: app, timeout: 10s}}]}]},
  http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]}`))

// healthy shows what a request costs that does not fail: Envoy with one plain hop, with envoy/hop.yaml,
// and the service, which reads the access log.
func (b *bench) healthy() {
	up, err := startUpstream()
	b.must(err)
	defer up.listener.Close()
	hop := stack.Start(b, stack.Options{
		Extproc: b.extproc(), ExtprocArgs: []string{"--log-level", "info"},
		Patches: []stack.Patch{appAt(up)},
	})
	one := stack.Start(b, stack.Options{Down: true, Patches: []stack.Patch{appAt(up), plain}})
	var hopEnvoy, service, hopTrip, oneEnvoy, oneTrip []float64
	for round := range healthyRounds + 1 { // the first warms
		o, err := measure(get{one.Addr, "/", "200", ""}, judgeConnections, healthyRequests, one.EnvoyPID())
		b.must(err)
		h, err := measure(get{hop.Addr, "/", "200", ""}, judgeConnections, healthyRequests, hop.EnvoyPID(), hop.ServicePID(0))
		b.must(err)
		if round == 0 {
			continue
		}
		oneEnvoy, oneTrip = append(oneEnvoy, o.cpu[0]), append(oneTrip, o.trip)
		hopEnvoy, service, hopTrip = append(hopEnvoy, h.cpu[0]), append(service, h.cpu[1]), append(hopTrip, h.trip)
	}
	if asked := hop.ExtProcStat("attempts", "streams_started"); asked != 0 {
		b.Fatalf("bench: %d healthy answers called the judge", asked)
	}
	fmt.Printf("microseconds for a request, median (and the middle half)\n%-22s  %-24s  %s\n", "", "one plain hop", "envoy/hop.yaml")
	fmt.Printf("%-22s  %-24s  %s\n", "CPU of Envoy", spread(oneEnvoy), spread(hopEnvoy))
	fmt.Printf("%-22s  %-24s  %s\n", "CPU of the service", "", spread(service))
	fmt.Printf("%-22s  %-24s  %s\n", "round trip, p50", spread(oneTrip), spread(hopTrip))
	b.summary.inform("healthy answer: CPU of Envoy", fmt.Sprintf("%.0f us; with one plain hop %.0f us", median(hopEnvoy), median(oneEnvoy)))
	b.summary.inform("healthy answer: CPU of the service (access log)", fmt.Sprintf("%.0f us", median(service)))
	b.summary.inform("healthy answer: round trip", fmt.Sprintf("%.0f us; with one plain hop %.0f us", median(hopTrip), median(oneTrip)))
}
