package stack

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

// labs are the arguments of AddUpstream for each of LabClusters.
var labs = []struct{ name, address, cluster, route string }{
	{name: "closed", address: "closed"},
	{name: "late", address: "late"},
	{name: "connect-timeout", address: "full", cluster: `{connect_timeout: 0.2s}`},
	{name: "no-hosts", cluster: `{lb_policy: ROUND_ROBIN}`},
	{name: "dns", cluster: `{type: STRICT_DNS, wait_for_warm_on_init: false, load_assignment: {cluster_name: dns, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: nope.invalid, port_value: 80}}}}]}]}}`},
	{name: "overflow", address: "h1", cluster: `{circuit_breakers: {thresholds: [{max_connections: 0, max_pending_requests: 0, max_requests: 0}]}}`},
	{name: "one-connection", address: "h1", cluster: `{circuit_breakers: {thresholds: [{max_connections: 1}]}}`},
	{name: "one-stream", address: "h2_one", cluster: `{circuit_breakers: {thresholds: [{max_connections: 1}]}, typed_extension_protocol_options: ` + h2Options + `}`},
	{name: "tls-plain", address: "h1", cluster: `{transport_socket: ` + tlsSocket("") + `}`},
	{name: "tls-closing", address: "closing", cluster: `{transport_socket: ` + tlsSocket("") + `}`},
	{name: "tls-silent", address: "silent", cluster: `{connect_timeout: 0.2s, transport_socket: ` + tlsSocket("") + `}`},
	// Envoy offers an upstream TLS 1.2 unless told otherwise.
	{name: "tls-mutual", address: "mutual_tls", cluster: `{transport_socket: ` + tlsSocket("common_tls_context: {tls_params: {tls_minimum_protocol_version: TLSv1_2, tls_maximum_protocol_version: TLSv1_3}}") + `}`},
	{name: "tls-other-ca", address: "tls"}, // its cluster needs the upstream's certificates
	{name: "short", address: "h1", route: `{route: {cluster: short, timeout: 0.3s}}`},
	{name: "no-cluster", route: `{route: {cluster_header: x-no-such-cluster}}`},
	{name: "no-route", route: `{match: {path: /nothing/else/matches}}`},
	{name: "direct", route: `{direct_response: {status: 503, body: {inline_string: direct}}}`},
}

const h2Options = `{envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {"@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http2_protocol_options: {}}}}`

func tlsSocket(context string) string {
	return `{name: envoy.transport_sockets.tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, ` + context + `}}`
}

// LabClusters adds inner virtual hosts NAME.example, each with a cluster NAME of its own, for the ways
// in which an attempt can end before the upstream is asked, and for some that need a cluster that is
// not like those of hop.yaml:
//
//	closed           a port that is never open
//	late             Upstream.Late(): closed until the test opens it
//	connect-timeout  connecting hangs; connect_timeout 0.2 s
//	no-hosts         no endpoint
//	dns              a name that DNS does not know
//	overflow         circuit breakers of 0
//	one-connection   HTTP/1.1, max_connections 1
//	one-stream       HTTP/2, max_connections 1, and the upstream allows one stream
//	tls-plain        TLS to a port that speaks HTTP
//	tls-closing      TLS to a port that closes every connection
//	tls-silent       TLS to a port that says nothing; connect_timeout 0.2 s
//	tls-mutual       TLS 1.3, and the upstream asks for a client certificate that is not there
//	tls-other-ca     TLS, and the upstream's certificate is not of the authority that is trusted
//	short            app with a route timeout of 0.3 s
//	no-cluster       the route names a cluster that does not exist
//	no-route         no route matches
//	direct           Envoy answers 503 by itself
func LabClusters() Patch {
	return Patch{"lab clusters", func(c *Config) error {
		for _, lab := range labs {
			cluster := lab.cluster
			if lab.name == "tls-other-ca" {
				trust, err := json.Marshal(string(c.Upstream.Certificates().OtherCA))
				if err != nil {
					return err
				}
				cluster = `{transport_socket: ` + tlsSocket(`common_tls_context: {validation_context: {trusted_ca: {inline_string: `+string(trust)+`}}}`) + `}`
			}
			if err := AddUpstream(lab.name, lab.address, cluster, lab.route)(c); err != nil {
				return fmt.Errorf("%s: %w", lab.name, err)
			}
		}
		return nil
	}}
}

// AddUpstream adds a cluster like app with one endpoint, and an inner virtual host NAME.example like
// app's with one route to it. addr is host:port, a listener of the upstream by its name in
// upstream.Addrs' JSON, "closed" for a port of the upstream that never opens, or "" for no endpoint.
// The fields of cluster and of route, YAML mappings or "", replace those of app. Without addr and
// cluster a route has an action of its own, and no cluster is added.
func AddUpstream(name, addr, cluster, route string) Edit {
	return func(c *Config) error {
		ownCluster := addr != "" || cluster != "" || route == ""
		if ownCluster {
			if err := c.addCluster(name, addr, cluster); err != nil {
				return err
			}
		}
		newRoute, err := c.like(Route("attempts", "app", "app"), route, map[string]any{"name": name})
		if err != nil {
			return err
		}
		if newRoute["direct_response"] != nil {
			delete(newRoute, "route")
		} else if ownCluster && !strings.Contains(route, "route:") {
			newRoute["route"].(map[string]any)["cluster"] = name
		}
		host, err := c.like(VirtualHost("attempts", "app"), "", map[string]any{
			"name": name, "domains": []any{name + ".example"}, "routes": []any{newRoute},
		})
		if err != nil {
			return err
		}
		return c.splice(HCM("attempts")+"/route_config/virtual_hosts", -1, host)
	}
}

func (c *Config) addCluster(name, addr, fields string) error {
	cluster, err := c.like(Cluster("app"), fields, map[string]any{"name": name})
	if err != nil {
		return err
	}
	if !strings.Contains(fields, "load_assignment") {
		var addrs []string
		if addr != "" {
			if addr, err = c.upstreamAddr(addr); err != nil {
				return err
			}
			addrs = append(addrs, addr)
		}
		var assignment map[string]any
		if err := yaml.Unmarshal([]byte(loadAssignment(name, addrs...)), &assignment); err != nil {
			return err
		}
		cluster["load_assignment"] = assignment
	}
	return c.splice("static_resources/clusters", -1, cluster)
}

// like returns a copy of the mapping at path with some fields replaced.
func (c *Config) like(path, fields string, more map[string]any) (map[string]any, error) {
	at, err := c.Get(path)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(at)
	if err != nil {
		return nil, err
	}
	var copied, replaced map[string]any
	if err := yaml.Unmarshal(text, &copied); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal([]byte(fields), &replaced); err != nil {
		return nil, fmt.Errorf("%q: %w", fields, err)
	}
	maps.Copy(copied, replaced)
	maps.Copy(copied, more)
	return copied, nil
}

// upstreamAddr resolves an address of AddUpstream.
func (c *Config) upstreamAddr(name string) (string, error) {
	if strings.Contains(name, ":") {
		return name, nil
	}
	if name == "closed" {
		port, err := c.Upstream.Reserve("")
		if err != nil {
			return "", err
		}
		return port.Addr(), nil
	}
	text, err := json.Marshal(c.Upstream.Addrs())
	if err != nil {
		return "", err
	}
	var addrs map[string]string
	if err := json.Unmarshal(text, &addrs); err != nil {
		return "", err
	}
	addr, ok := addrs[name]
	if !ok {
		return "", fmt.Errorf("the upstream has no listener %q", name)
	}
	return addr, nil
}
