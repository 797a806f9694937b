package envoycheck

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/verdictproxy/verdict/internal/evidence"
)

// Envoy's defaults (1.40).
const (
	defaultMaxHeaders  = 100
	defaultMaxRequests = 1024 // and connections
	defaultIdle        = time.Hour

	httpProtocolOptions    = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	proxyProtocolTransport = ".ProxyProtocolUpstreamTransport"
)

func protocolOptions(cluster node) node {
	return cluster.get("typed_extension_protocol_options").get(httpProtocolOptions)
}

// maxHeaders is how many headers an answer may have that comes from the cluster.
func maxHeaders(cluster node) uint64 {
	if n, ok := protocolOptions(cluster).get("common_http_protocol_options", "max_headers_count").number(); ok {
		return n
	}
	return defaultMaxHeaders
}

// http2 is the cluster's HTTP/2 options, in the current or the deprecated place.
func http2(cluster node) node {
	options := protocolOptions(cluster)
	return options.get("explicit_http_config", "http2_protocol_options").
		or(options.get("auto_config", "http2_protocol_options")).
		or(options.get("use_downstream_protocol_config", "http2_protocol_options")).
		or(cluster.get("http2_protocol_options"))
}

// entryCluster checks the cluster through which router A reaches the inner hop.
func (c *checker) entryCluster(cluster node) {
	c.highBreakers(cluster, "max_connections", "max_requests", "max_pending_requests", "max_retries")
	options := protocolOptions(cluster)
	c.forbid(options, clusterRetry, "retry_policy", "request_mirror_policies")
	c.maxHeaders(options, cluster)
}

// highBreakers reports limits that nobody has raised.
func (c *checker) highBreakers(cluster node, limits ...string) {
	thresholds := cluster.get("circuit_breakers", "thresholds")
	var normal node
	for _, t := range thresholds.items() {
		if p := t.get("priority").text(); p == "" || p == "DEFAULT" {
			normal = t
		}
	}
	for _, limit := range limits {
		n := normal.get(limit)
		if got, ok := n.number(); !ok || got <= defaultMaxRequests {
			c.report(n.or(normal).or(cluster), breakers, "%s of cluster %s is not above %d", limit, cluster.get("name").text(), defaultMaxRequests)
		}
	}
	if n := normal.get("retry_budget"); n.exists() {
		c.report(n, breakers, "retry_budget of cluster %s replaces max_retries", cluster.get("name").text())
	}
}

// connection checks the two sides of the connections between the hops.
func (c *checker) connection(entry node, inner *hop) {
	if n := http2(entry); n.exists() {
		c.report(n, sharedConnection, "HTTP/2 between the hops")
		return
	}
	options := protocolOptions(entry)
	for _, side := range []struct{ options, at node }{
		{options.get("explicit_http_config", "http_protocol_options"), options.or(entry)},
		{inner.hcm.get("http_protocol_options"), inner.hcm},
	} {
		if n := side.options.get("enable_trailers"); !n.isTrue() {
			c.report(n.or(side.options).or(side.at), noTrailers, "enable_trailers is not true")
		}
	}
	kept := options.get("common_http_protocol_options", "max_requests_per_connection").or(entry.get("max_requests_per_connection"))
	if n, ok := kept.number(); !ok || n != 1 {
		c.report(kept.or(options).or(entry), keptConnection, "max_requests_per_connection of cluster %s is not 1", entry.get("name").text())
	}
	idle := options.get("common_http_protocol_options", "idle_timeout")
	if ours, theirs := idleTimeout(idle), idleTimeout(inner.hcm.get("common_http_protocol_options", "idle_timeout")); ours >= theirs {
		c.report(idle.or(options).or(entry), lateIdle, "idle_timeout of cluster %s is not shorter than the inner hop's", entry.get("name").text())
	}
}

// idleTimeout reads an idle_timeout, of which 0 means never.
func idleTimeout(n node) time.Duration {
	if d, ok := n.duration(); !ok {
		return defaultIdle
	} else if d > 0 {
		return d
	}
	return math.MaxInt64
}

// verdictCluster checks the cluster of a gRPC service of ours.
func (c *checker) verdictCluster(service node) {
	name := service.get("envoy_grpc", "cluster_name")
	cluster, known := c.clusters[name.text()]
	if !known {
		c.report(name.or(service), unseen, "the cluster of this gRPC service")
		return
	}
	c.highBreakers(cluster, "max_requests", "max_pending_requests")
	if !http2(cluster).exists() {
		c.report(cluster, notHTTP2, "cluster %s has no http2_protocol_options", name.text())
	}
	if n := cluster.get("common_lb_config", "healthy_panic_threshold"); n.get("value").text() != "0" && n.text() != "0" {
		c.report(n.or(cluster), panicky, "cluster %s has a panic threshold", name.text())
	}
	health := false
	for _, check := range cluster.get("health_checks").items() {
		health = health || check.get("grpc_health_check").exists()
	}
	if !health {
		c.report(cluster.get("health_checks").or(cluster), unchecked, "cluster %s has no gRPC health check", name.text())
	}
	if n := cluster.get("lb_policy"); n.text() != "LEAST_REQUEST" {
		c.report(n.or(cluster), balancing, "cluster %s", name.text())
	}
	c.encrypted(cluster)
}

// upstreams checks the clusters behind the inner routes.
func (c *checker) upstreams(h *hop) {
	names := make(map[string]bool)
	for _, r := range h.routes {
		found, known := r.clusters()
		for _, name := range found {
			names[name] = true
			c.upstreamNames[name] = true
		}
		if n := r.route.get("metadata", "filter_metadata", "verdict", "operation"); n.exists() {
			c.operations[n.text()] = true
		}
		if !known {
			c.report(r.action(), unseen, "the cluster of this route")
		}
	}
	least := uint64(0)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		cluster, known := c.clusters[name]
		if !known {
			continue // Envoy refuses the file, or it comes by CDS
		}
		c.proxyProtocol(cluster)
		options := protocolOptions(cluster)
		c.forbid(options, innerRetry, "retry_policy")
		c.forbid(options, innerMirror, "request_mirror_policies")
		c.maxHeaders(options, cluster)
		if count := maxHeaders(cluster); least == 0 || count < least {
			least = count
		}
	}
	if at := h.index(hasRole("judge")); at >= 0 && least > 0 {
		c.equals(h.filters[at], evidence.MetadataMaxHeaders, "the least max_headers_count of the upstream clusters", least)
	}
}

// proxyProtocol looks for version 1, which is also the default, in every transport socket.
func (c *checker) proxyProtocol(cluster node) {
	sockets := []node{cluster.get("transport_socket")}
	for _, match := range cluster.get("transport_socket_matches").items() {
		sockets = append(sockets, match.get("transport_socket"))
	}
	for _, socket := range sockets {
		for range maxAliases { // sockets stand inside sockets
			message, config := socket.typed()
			if strings.HasSuffix(message, proxyProtocolTransport) {
				if v := config.get("config", "version"); v.text() != "V2" && v.text() != "1" {
					c.report(v.or(socket), proxyProtocol, "cluster %s", cluster.get("name").text())
				}
			}
			socket = config.get("transport_socket")
		}
	}
}
