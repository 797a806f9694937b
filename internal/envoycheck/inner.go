package envoycheck

import (
	"slices"
	"strings"

	"github.com/verdictproxy/verdict/internal/evidence"
)

const (
	factsHeader = "x-verdict-facts"
	headState   = "verdict.request"
	keyState    = "verdict.key"
)

// inner checks the inner hop, its routes and the clusters behind them.
func (c *checker) inner(h *hop) {
	c.notInFile(h)
	c.innerFilters(h)
	c.innerListener(h.hcm)
	c.innerRoutes(h)
	c.fetchesPages(h, innerPage)
	c.matches(h)
	c.steers(h)
	c.ownReplies(h)
	c.upstreams(h)
}

func (c *checker) innerFilters(h *hop) {
	list := h.hcm.get("http_filters").or(h.hcm)
	if len(h.filters) == 0 || !h.filters[0].isHead() {
		c.report(list, headFirst, "the first filter is no head")
	}
	for _, f := range h.filters {
		if f.isHead() {
			c.head(f)
		}
	}
	judge, facts := h.index(hasRole("judge")), h.index(func(f filter) bool { return f.writes(factsHeader) })
	strip := h.index(func(f filter) bool {
		return f.removes(evidence.PrefixVerdict) && f.removes(evidence.PrefixReport)
	})
	if judge < 0 {
		c.report(list, noJudge, "no judge")
	} else {
		c.judge(h.filters[judge])
	}
	if facts < 0 {
		c.report(list, noFacts, "no facts")
	}
	if strip < 0 {
		c.report(list, noStrip, "no strip")
	}
	if judge >= 0 && facts >= 0 {
		if facts < judge {
			c.report(h.filters[facts].node, order, "the facts stand in front of the judge")
		}
		if a, b := h.filters[judge].matcher, h.filters[facts].matcher; !equal(a, b) && (a.exists() || b.exists()) {
			c.report(b.or(h.filters[facts].node), otherMatcher, "the matchers of judge and facts differ")
		}
	}
	if strip >= 0 && strip != len(h.filters)-2 {
		c.report(h.filters[strip].node, order, "strip is not next to router B")
	}
	if strip >= 0 && facts > strip {
		c.report(h.filters[facts].node, order, "the strip removes the facts")
	}
	for _, f := range h.filters {
		if n := f.config.get("respect_expected_rq_timeout"); f.is("Router") && n.isTrue() {
			c.report(n, useless, "respect_expected_rq_timeout")
		}
	}
}

func (f filter) isHead() bool {
	return strings.HasSuffix(f.message, ".set_filter_state.v3.Config") && f.state(headState).exists()
}

// state is the format of a filter state object that a set_filter_state writes.
func (f filter) state(key string) node {
	for _, n := range f.config.get("on_request_headers").items() {
		if n.get("object_key").text() == key {
			return n.get("format_string", "text_format_source", "inline_string").or(n.get("format_string", "text_format"))
		}
	}
	return node{}
}

func (c *checker) head(f filter) {
	format := f.state(headState)
	for _, header := range []string{requestIDHeader, "x-envoy-attempt-count", "x-envoy-expected-rq-timeout-ms"} {
		if !strings.Contains(strings.ToLower(format.text()), "%req("+header+")") {
			c.report(format, headCopies, "%s is not copied", header)
		}
	}
}

// innerListener checks what the deadline, the headers and the budget need.
func (c *checker) innerListener(hcm node) {
	var v4, v6 bool
	for _, cidr := range hcm.get("internal_address_config", "cidr_ranges").items() {
		bits, known := cidr.get("prefix_len").number()
		if all := !known || bits == 0; all {
			v4 = v4 || cidr.get("address_prefix").text() == "0.0.0.0"
			v6 = v6 || cidr.get("address_prefix").text() == "::"
		}
	}
	if !v4 || !v6 {
		c.report(hcm.get("internal_address_config").or(hcm), unknownAddress, "not every address is internal")
	}
	c.maxHeaders(hcm, hcm)
	log := false
	for _, logger := range hcm.get("access_log").items() {
		message, config := logger.typed()
		if !strings.HasSuffix(message, ".HttpGrpcAccessLogConfig") {
			continue
		}
		common := config.get("common_config")
		c.verdictCluster(common.get("grpc_service"))
		for _, state := range common.get("filter_state_objects_to_log").items() {
			log = log || state.text() == headState
		}
	}
	if !log {
		c.report(hcm.get("access_log").or(hcm), noAccessLog, "no first attempt is counted")
	}
}

// drawn finds what makes Envoy choose a cluster or a route by chance.
func (c *checker) drawn(r route) {
	if split := r.action().get("weighted_clusters"); len(split.get("clusters").items()) > 1 {
		names, _ := r.clusters()
		c.splits = append(c.splits, Split{Line: split.yaml.Line, Column: split.yaml.Column, Clusters: names})
		c.report(split, innerChance, "weighted_clusters")
	}
	if chance := r.route.get("match", "runtime_fraction"); chance.exists() {
		c.report(chance, innerChance, "runtime_fraction")
	}
}

// differing are the request headers that router A sends otherwise with each attempt.
var differing = []string{"x-envoy-attempt-count", "x-envoy-expected-rq-timeout-ms", "x-envoy-is-timeout-retry"}

// matches finds routes that are chosen by such a header.
func (c *checker) matches(h *hop) {
	report := func(n node) {
		if slices.Contains(differing, strings.ToLower(n.text())) {
			c.report(n, innerMatch, "%s", n.text())
		}
	}
	for _, r := range h.routes {
		for _, header := range r.route.get("match", "headers").items() {
			report(header.get("name"))
		}
		report(r.action().get("cluster_header"))
	}
	h.hcm.get("route_config").walk(func(field string, n node) bool {
		if field == "matcher" {
			n.walk(func(_ string, n node) bool {
				report(n.get("header_name"))
				return true
			})
		}
		return field != "matcher"
	})
}

// maxHeaders checks the common_http_protocol_options of a connection manager or a cluster.
func (c *checker) maxHeaders(options, at node) {
	n := options.get("common_http_protocol_options", "max_headers_count")
	if count, ok := n.number(); !ok || count <= defaultMaxHeaders {
		c.report(n.or(at), headerCount, "max_headers_count is not above %d", defaultMaxHeaders)
	}
}

// innerRoutes looks for what falsifies the facts, at every level, also inside matcher trees.
func (c *checker) innerRoutes(h *hop) {
	seen := h.hcm.get("route_config").or(h.hcm.get("scoped_routes")).walk(func(field string, n node) bool {
		switch field {
		case "metadata", "typed_per_filter_config", "typedPerFilterConfig":
			return false // names that are not Envoy's
		}
		c.forbid(n, innerRetry, "retry_policy", "retry_policy_typed_config")
		c.forbid(n, innerHedge, "hedge_policy")
		c.forbid(n, innerRedirect, "internal_redirect_policy")
		c.forbid(n, innerMirror, "request_mirror_policies", "request_mirror_policy")
		c.forbid(n, innerCount, "include_request_attempt_count")
		if action := n.get("internal_redirect_action"); action.text() == "HANDLE_INTERNAL_REDIRECT" {
			c.report(action, innerRedirect, "internal_redirect_action")
		}
		return true
	})
	if !seen {
		c.report(h.hcm.get("route_config").or(h.hcm), tooMuch, "the inner routes")
	}
	for _, r := range h.routes {
		c.overrides(r, h.filters)
		c.drawn(r)
		if !r.action().exists() {
			continue
		}
		for _, header := range []string{"x-envoy-internal", requestIDHeader} {
			removed := false
			for _, level := range r.levels() {
				for _, n := range level.get("request_headers_to_remove").items() {
					removed = removed || strings.EqualFold(n.text(), header)
				}
			}
			if !removed {
				c.report(r.host, leakedToService, "%s reaches the upstream", header)
			}
		}
	}
}
