package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// tableConfig holds for every cluster of the evidence table: short backoffs, a budget that never ends,
// and one operation that honours the idempotency key.
const tableConfig = `
defaults: {backoff: {base: 0.001s, max: 0.002s}, budget: {ratio: 0, min_retries_per_second: 1000}}
upstreams:
- clusters: [app, app-h2, closed, late, connect-timeout, no-hosts, dns, overflow, one-connection, one-stream,
    tls-plain, tls-closing, tls-silent, tls-mutual, tls-other-ca, short, race, maintenance]
  operations: [{pattern: POST /keyed, idempotency: idempotent_with_key}]
`

// tablePatches are what the evidence table needs besides LabClusters.
func tablePatches(t *testing.T, accessLog string) []stack.Patch {
	t.Helper()
	return []stack.Patch{
		stack.LabClusters(),
		stack.NewPatch("a cluster whose connections no other row uses", upstreamLike("race", "", "")),
		stack.NewPatch("a pool that a request to /hold keeps busy", keepBusy("one-connection"), keepBusy("one-stream")),
		stack.NewPatch("maintenance mode",
			upstreamLike("maintenance", "", ""),
			stack.Set("layered_runtime", `{layers: [{name: static, static_layer: {upstream.maintenance_mode.maintenance: 100}}]}`)),
		refusingFilters(),
		attemptLog(accessLog),
	}
}

// upstreamLike adds a cluster and a host NAME.example to the HTTP/1.1 listener.
func upstreamLike(name, cluster, route string) stack.Edit {
	return func(c *stack.Config) error {
		return stack.AddUpstream(name, c.Upstream.Addrs().H1, cluster, route)(c)
	}
}

// upstreamLikeH2 is upstreamLike for the HTTP/2 listener.
func upstreamLikeH2(name string) stack.Edit {
	return func(c *stack.Config) error {
		if err := stack.AddUpstream(name, c.Upstream.Addrs().H2, "", "")(c); err != nil {
			return err
		}
		return stack.Set(stack.HTTPOptions(name)+"/explicit_http_config", "{http2_protocol_options: {}}")(c)
	}
}

func keepBusy(host string) stack.Edit {
	return func(c *stack.Config) error {
		route := stack.Route("attempts", host, host)
		for _, edit := range []stack.Edit{
			stack.Set(route+"/route/timeout", "0.3s"),
			stack.Insert(route, fmt.Sprintf(`{name: hold, match: {prefix: /hold}, route: {cluster: %s, timeout: 60s}}`, host)),
		} {
			if err := edit(c); err != nil {
				return err
			}
		}
		return nil
	}
}

// refusingFilters puts filters between facts and router B, each of which refuses the requests of one host.
func refusingFilters() stack.Patch {
	const filters = "type.googleapis.com/envoy.extensions.filters.http."
	var edits []stack.Edit
	for _, f := range []struct{ name, config string }{
		{"fault", `"@type": ` + filters + `fault.v3.HTTPFault, headers: [{name: ":authority", string_match: {exact: fault.example}}], abort: {http_status: 503, percentage: {numerator: 100}}`},
		{"rbac", `"@type": ` + filters + `rbac.v3.RBAC, rules: {action: DENY, policies: {all: {principals: [{any: true}], permissions: [{header: {name: ":authority", string_match: {exact: rbac.example}}}]}}}`},
		{"lua", `"@type": ` + filters + `lua.v3.Lua, default_source_code: {inline_string: "function envoy_on_request(h) if h:headers():get(':authority') == 'lua.example' then h:respond({[':status'] = '403'}, 'no') end end"}`},
		{"local-rate-limit", `"@type": ` + filters + `local_ratelimit.v3.LocalRateLimit, stat_prefix: limited`},
	} {
		edits = append(edits, stack.Insert(stack.HTTPFilter("attempts", "strip"), `{name: `+f.name+`, typed_config: {`+f.config+`}}`))
	}
	for _, host := range []string{"fault", "rbac", "lua", "limited"} {
		route := "{route: {cluster: app, timeout: 1s}}"
		if host == "limited" {
			// One request an hour passes.
			route = `{route: {cluster: app, timeout: 1s}, typed_per_filter_config: {local-rate-limit: {"@type": ` + filters + `local_ratelimit.v3.LocalRateLimit, stat_prefix: limited, token_bucket: {max_tokens: 1, fill_interval: 3600s}, filter_enabled: {default_value: {numerator: 100}}, filter_enforced: {default_value: {numerator: 100}}}}}`
		}
		edits = append(edits, upstreamLike(host, "", route))
	}
	return stack.NewPatch("filters that refuse on the way in", edits...)
}

// attemptLog makes Envoy write a line for each attempt of the inner hop.
func attemptLog(file string) stack.Patch {
	return stack.NewPatch("a log of the attempts", stack.Append(stack.HCM("attempts")+"/access_log",
		`{name: file, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: `+file+
			`, log_format: {text_format_source: {inline_string: "%REQ(X-TEST-ID)% flags=%RESPONSE_FLAGS% sent=%UPSTREAM_WIRE_BYTES_SENT% tries=%UPSTREAM_REQUEST_ATTEMPT_COUNT% %RESPONSE_CODE_DETAILS%\n"}}}}`))
}

// flushed lets the access log be read soon after the attempt.
var flushed = []string{"--file-flush-interval-msec", "20"}

// attemptsOf returns the lines of an attempt log about one request, without its id; the number of bytes
// sent is only 0 or more.
func attemptsOf(log, id string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		rest, ok := strings.CutPrefix(line, id+" ")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] != "sent=0" {
			fields[1] = "sent>0"
		}
		lines = append(lines, strings.Join(fields, " "))
	}
	return lines
}
