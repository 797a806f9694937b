# What render.sh changes in envoy/hop.yaml: addresses, what envoy/credential.yaml and envoy/tls say, and one
# more upstream for each way in which an attempt ends before an upstream is asked.

# Listeners that other containers reach.
s/address: 127\.0\.0\.1, port_value: (9901|10000)\b/address: 0.0.0.0, port_value: \1/

# Both replicas of Verdict; the faulty upstream.
s/\{endpoint: \{address: \{socket_address: \{address: 127\.0\.0\.1, port_value: 9002\}\}\}\}/{endpoint: {address: {socket_address: {address: verdict-1, port_value: 9002}}}}, {endpoint: {address: {socket_address: {address: verdict-2, port_value: 9002}}}}/
s/address: 127\.0\.0\.1, port_value: (8080|8081|8443)\b/address: upstream, port_value: \1/

# They are names, and their addresses change when a container is started anew.
/^  - name: (verdict|app|app-h2|app-tls)$/a\
    cluster_type: {name: envoy.cluster.dns, typed_config: {"@type": type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster, dns_lookup_family: V4_ONLY, dns_refresh_rate: 0.5s}}

# envoy/tls: Verdict is across a network.
/^admin:/a\
node: {id: envoy, cluster: edge}
/^  - name: verdict$/r /dev/fd/4

# envoy/credential.yaml: clients have no authorization of their own; the filters in front
# of the judge; one more case that is not ambiguous; what the facts and the judge are told.
/^ +- append: .*header: \{key: x-verdict-id, /a\
              - remove: authorization
/^ +# judge: decides on every failing attempt/r /dev/fd/3
/ - single_predicate: \{input: \*grpc_status, value_match: \{exact: "0"\}\}/r /dev/fd/5
/^ +- append: .*header: \{key: x-verdict-request-id, /a\
                    - append: {append_action: OVERWRITE_IF_EXISTS_OR_ADD, header: {key: x-verdict-credential, value: "%FILTER_STATE(verdict.credential:PLAIN)%"}}
/^ +- name: judge$/,/^ +- name: facts$/s/^( +)response_attributes: .*/\1response_attributes: ["request.headers['idempotency-key']", "request.headers['x-http-method-override']", "request.headers['x-http-method']", "request.headers['x-method-override']", "request.headers['authorization']", "filter_state['verdict.mark']"]/

# The upstreams of the scenarios: virtual hosts behind the last of hop.yaml's, clusters at the end.
/^ +routes: \[\{name: app-tls, /r hosts.yaml
$r clusters.yaml
