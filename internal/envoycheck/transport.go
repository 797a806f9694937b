package envoycheck

import (
	"net/netip"
	"slices"
	"strings"
)

const tlsTransport = ".UpstreamTlsContext"

// Caller is a cluster by which Envoy calls Verdict.
type Caller struct {
	Cluster      string
	Line, Column int // of its transport socket, or of itself
	// TLS: it speaks TLS. Certificate: it shows a certificate.
	TLS, Certificate bool
}

func caller(cluster node) Caller {
	socket := cluster.get("transport_socket")
	config, at := tlsContext(socket), socket.or(cluster)
	common := config.get("common_tls_context")
	return Caller{
		Cluster: cluster.get("name").text(), Line: at.yaml.Line, Column: at.yaml.Column,
		TLS: config.exists(),
		Certificate: len(common.get("tls_certificates").items()) > 0 || len(common.get("tls_certificate_sds_secret_configs").items()) > 0 ||
			common.get("tls_certificate_provider_instance").exists() || common.get("custom_tls_certificate_selector").exists(),
	}
}

// encrypted checks how a cluster of ours is reached, if that is over a network.
func (c *checker) encrypted(cluster node) {
	remote, name := remoteEndpoint(cluster), cluster.get("name").text()
	if !cluster.get("transport_socket_matches").exists() { // these depend on the endpoint
		c.callers[name] = caller(cluster)
	}
	if !remote.exists() {
		return
	}
	sockets := transportSockets(cluster)
	if len(sockets) == 0 {
		c.report(remote, plaintext, "cluster %s is reached at %s without TLS", name, remote.text())
	}
	for _, socket := range sockets {
		config := tlsContext(socket)
		if !config.exists() {
			c.report(socket, plaintext, "cluster %s is reached at %s without TLS", name, remote.text())
			continue
		}
		for _, missing := range unverifiedBy(config) {
			c.report(config.get("common_tls_context").or(config), unverified, "no %s (cluster %s)", missing, name)
		}
	}
}

// unverifiedBy says what a TLS context does not check of the server's certificate.
func unverifiedBy(config node) (missing []string) {
	common := config.get("common_tls_context")
	if common.get("validation_context_sds_secret_config").exists() {
		return nil // Envoy fetches it
	}
	combined := common.get("combined_validation_context")
	validation := common.get("validation_context").or(combined.get("default_validation_context"))
	has := func(fields ...string) bool {
		return slices.ContainsFunc(fields, func(field string) bool { return validation.get(field).exists() })
	}
	if has("verify_certificate_hash", "verify_certificate_spki", "custom_validator_config") {
		return nil
	}
	if !has("trusted_ca", "system_root_certs") && !combined.get("validation_context_sds_secret_config").exists() {
		missing = append(missing, "trusted_ca")
	}
	if !has("match_typed_subject_alt_names", "match_subject_alt_names") && !config.get("auto_sni_san_validation").isTrue() {
		missing = append(missing, "match_typed_subject_alt_names")
	}
	return missing
}

// remoteEndpoint is the address of an endpoint that other machines may stand behind.
func remoteEndpoint(cluster node) node {
	for _, locality := range cluster.get("load_assignment", "endpoints").items() {
		for _, endpoint := range locality.get("lb_endpoints").items() {
			address := endpoint.get("endpoint", "address", "socket_address", "address")
			ip, err := netip.ParseAddr(address.text())
			if address.exists() && address.text() != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
				return address
			}
		}
	}
	return node{}
}

// transportSockets are those that a cluster may use.
func transportSockets(cluster node) []node {
	var sockets []node
	for _, match := range cluster.get("transport_socket_matches").items() {
		sockets = append(sockets, match.get("transport_socket"))
	}
	if n := cluster.get("transport_socket"); n.exists() {
		sockets = append(sockets, n)
	}
	return sockets
}

// tlsContext finds TLS in a transport socket, or in one of those inside it.
func tlsContext(socket node) node {
	for range maxAliases { // sockets stand inside sockets
		message, config := socket.typed()
		if strings.HasSuffix(message, tlsTransport) {
			return config
		}
		socket = config.get("transport_socket")
	}
	return node{}
}
