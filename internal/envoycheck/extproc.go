package envoycheck

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verdictproxy/verdict/internal/evidence"
)

const roleKey = evidence.MetadataRole

// metadata is the initial metadata of an ext_proc stream.
type metadataEntries []node

func metadataOf(f filter) metadataEntries {
	return f.config.get("grpc_service", "initial_metadata").items()
}

func (m metadataEntries) get(key string) node {
	for _, entry := range m {
		if entry.get("key").text() == key {
			return entry.get("value").or(entry.get("raw_value"))
		}
	}
	return node{}
}

// extProc checks what judge and finalizer have in common.
func (c *checker) extProc(f filter) {
	if n := f.config.get("failure_mode_allow"); !n.isTrue() {
		c.report(n.or(f.node), failClosed, "failure_mode_allow is not true (%s)", f.role)
	}
	mode := f.config.get("processing_mode")
	for field, want := range map[string]string{
		"request_header_mode": "SKIP", "response_header_mode": "SEND", "request_body_mode": "NONE",
		"response_body_mode": "NONE", "request_trailer_mode": "SKIP", "response_trailer_mode": "SKIP",
	} {
		n := mode.get(field)
		got := n.text()
		if got == "DEFAULT" || got == "" {
			got = map[bool]string{true: "SEND", false: want}[strings.HasSuffix(field, "header_mode")]
		}
		if got != want {
			c.report(n.or(mode).or(f.node), processing, "%s is %s, not %s (%s)", field, got, want, f.role)
		}
	}
	if !f.matcher.exists() {
		c.report(f.node, everyAnswer, "no matcher (%s)", f.role)
	}
	if d, ok := f.config.get("message_timeout").duration(); !ok || d < 500*time.Millisecond {
		c.report(f.config.get("message_timeout").or(f.node), shortTimeout, "message_timeout below 0.5s (%s)", f.role)
	}
	c.verdictCluster(f.config.get("grpc_service"))
}

func (c *checker) judge(f filter) {
	c.extProc(f)
	c.require(f.config, noModeOverride, "allow_mode_override")
	if n := f.config.get("mutation_rules", "allow_envoy"); !n.isTrue() {
		c.report(n.or(f.node), rateLimited, "allow_envoy is not true")
	}
	longest, ok := f.config.get("max_message_timeout").duration()
	if !ok {
		c.report(f.node, noWait, "no max_message_timeout")
		return
	}
	c.equals(f, evidence.MetadataMaxWait, "max_message_timeout in ms", uint64(longest.Milliseconds()))
}

// equals compares an entry of the metadata with Envoy's own setting.
func (c *checker) equals(f filter, key, setting string, want uint64) {
	n := metadataOf(f).get(key)
	if got, ok := n.number(); !ok || got != want {
		c.report(n.or(f.node), metadata, "%s is %q, %s is %d (%s)", key, n.text(), setting, want, f.role)
	}
}

// together checks where one hop repeats what the other says.
func (c *checker) together(p pair) {
	var told []filter
	if at := p.outer.index(hasRole("finalizer")); at >= 0 {
		f := p.outer.filters[at]
		told = append(told, f)
		for _, cluster := range p.entries {
			c.equals(f, evidence.MetadataMaxHeaders, "max_headers_count of the cluster that leads inwards", maxHeaders(cluster))
		}
	}
	if at := p.inner.index(hasRole("judge")); at >= 0 {
		f := p.inner.filters[at]
		told = append(told, f)
		if longest, ok := f.config.get("max_message_timeout").duration(); ok {
			c.lifetimes(p, longest)
		}
	}
	for _, f := range told {
		for _, r := range p.leading {
			if limit, ok := replayLimit(r).number(); ok {
				c.equals(f, evidence.MetadataReplayLimit, "request_body_buffer_limit", limit)
			}
			retries, ok := r.effective("retry_policy").get("num_retries").number()
			if !ok {
				retries = 1 // Envoy's default
			}
			c.equals(f, evidence.MetadataRetries, "num_retries", retries)
		}
		c.keyHeader(f, p.inner)
	}
	c.deadlines(p)
	accepted := make(map[string]bool)
	for _, u := range p.inner.hcm.get("upgrade_configs").items() {
		accepted[u.get("upgrade_type").text()] = true
		c.forbid(u, ownFilters, "filters")
	}
	for _, u := range p.outer.hcm.get("upgrade_configs").items() {
		c.forbid(u, ownFilters, "filters")
		if n := u.get("upgrade_type"); !accepted[n.text()] {
			c.report(n, refusedUpgrade, "%s", n.text())
		}
	}
}

// keyHeader compares the three places that name the header of the idempotency key.
func (c *checker) keyHeader(f filter, inner *hop) {
	n := metadataOf(f).get(evidence.MetadataKeyHeader)
	key := strings.ToLower(n.text())
	if key == "" {
		c.report(f.node, keyHeader, "no %s (%s)", evidence.MetadataKeyHeader, f.role)
		return
	}
	attribute := false
	for _, list := range []string{"request_attributes", "response_attributes"} {
		for _, a := range f.config.get(list).items() {
			attribute = attribute || a.text() == "request.headers['"+key+"']"
		}
	}
	if !attribute {
		c.report(n, keyHeader, "no attribute request.headers['%s'] (%s)", key, f.role)
	}
	for _, head := range inner.filters {
		if copied := head.state(keyState); head.isHead() && !strings.Contains(strings.ToLower(copied.text()), "%req("+key+")") {
			c.report(n, keyHeader, "the head's %s is not a copy of %s (%s)", keyState, key, f.role)
		}
	}
}

// lifetimes compares what can end a held answer with the longest wait.
func (c *checker) lifetimes(p pair, wait time.Duration) {
	check := func(n node, name string) {
		if d, ok := n.duration(); ok && d > 0 && d < wait {
			c.report(n, shortLife, "%s is shorter than the longest wait of %v", name, wait)
		}
	}
	for _, h := range []*hop{p.outer, p.inner} {
		check(h.hcm.get("stream_idle_timeout"), "stream_idle_timeout")
		check(h.hcm.get("common_http_protocol_options", "max_stream_duration"), "max_stream_duration")
	}
	for _, r := range slices.Concat(p.leading, p.inner.routes) {
		check(r.action().get("idle_timeout"), "idle_timeout")
		check(r.action().get("max_stream_duration", "max_stream_duration"), "max_stream_duration")
	}
}

const defaultRouteTimeout = 15 * time.Second

func routeTimeout(r route) time.Duration {
	if d, ok := r.action().get("timeout").duration(); ok {
		return d
	}
	return defaultRouteTimeout
}

// deadlines compares the timeouts of the inner routes with the shortest deadline.
func (c *checker) deadlines(p pair) {
	var shortest time.Duration // 0: none
	for _, r := range p.leading {
		if d := routeTimeout(r); d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	if shortest == 0 {
		return
	}
	for _, r := range p.inner.routes {
		if d := routeTimeout(r); r.action().exists() && (d == 0 || d >= shortest) {
			c.report(r.action().get("timeout").or(r.action()), lateTimeout, "timeout %s, deadline %s", seconds(d), seconds(shortest))
		}
	}
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
