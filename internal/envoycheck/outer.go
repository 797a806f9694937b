package envoycheck

import (
	"strings"
	"time"

	"github.com/verdictproxy/verdict/internal/evidence"
)

const requestIDHeader = "x-verdict-id"

// outer checks the outer hop and the routes of it that lead to the inner one.
func (c *checker) outer(h *hop, leading []route) {
	c.notInFile(h)
	c.clients(h, leading)
	c.fetchesPages(h, outerPage)
	c.steers(h)
	c.ownReplies(h)
	if n := h.hcm.get("proxy_100_continue"); n.isTrue() {
		c.report(n, continueProxied, "proxy_100_continue")
	}
	if n := h.hcm.get("generate_request_id"); n.text() == "false" {
		c.report(n, generatedID, "generate_request_id: false")
	}
	if len(h.filters) == 0 || !h.filters[0].removes(evidence.PrefixVerdict) {
		c.report(h.hcm.get("http_filters").or(h.hcm), sweepFirst, "the first filter is no sweep")
	}
	if at := h.index(hasRole("finalizer")); at < 0 {
		c.report(h.hcm.get("http_filters").or(h.hcm), noFinalizer, "no ext_proc filter has the role finalizer")
	} else {
		f := h.filters[at]
		c.extProc(f)
		if h.index(func(f filter) bool { return f.writes("x-verdict-outer") }) < at {
			c.report(f.node, noOuterFacts, "no facts of this hop")
		}
	}
	c.unjudged(h)
	for _, f := range h.filters {
		if n := f.config.get("suppress_envoy_headers"); f.is("Router") && n.isTrue() {
			c.report(n, suppressed, "suppress_envoy_headers")
		}
	}
	for _, r := range leading {
		c.routerA(r)
		c.overrides(r, h.filters)
	}
}

// notInFile reports what Envoy fetches later.
func (c *checker) notInFile(h *hop) {
	hcm := h.hcm
	for _, path := range [][]string{{"rds"}, {"scoped_routes", "scoped_rds"}, {"route_config", "vhds"}} {
		if n := hcm.get(path...); n.exists() {
			c.report(n, unseen, "%s", path[len(path)-1])
		}
	}
	for _, f := range h.filters {
		if n := f.node.get("config_discovery"); n.exists() {
			c.report(n, unseen, "config_discovery")
		}
		if n := f.node.get("disabled"); n.isTrue() && f.ours() && !f.ofCredential() {
			c.report(n, switchedOff, "disabled: true")
		}
	}
}

// clients checks what may come from a client.
func (c *checker) clients(h *hop, leading []route) {
	early := h.hcm.get("early_header_mutation_extensions")
	var missing []string
	hasID := false
	var mutations []node
	for _, extension := range early.items() {
		_, config := extension.typed()
		mutations = append(mutations, config.get("mutations").items()...)
	}
	for _, prefix := range []string{"x-envoy-", evidence.PrefixReport, evidence.PrefixVerdict} {
		if !removesPrefix(mutations, prefix) {
			missing = append(missing, prefix)
		}
	}
	for i := range mutations { // in order: what is set first is removed again
		hasID = sets(mutations[i:], requestIDHeader) && !removesPrefix(mutations[i:], requestIDHeader)
		if hasID {
			break
		}
	}
	if missing != nil {
		c.report(early.or(h.hcm), clientHeaders, "early_header_mutation_extensions does not remove the prefix %s", strings.Join(missing, ", "))
	}
	for _, r := range leading {
		added := hasID
		for _, level := range r.levels() {
			for _, h := range level.get("request_headers_to_add").items() {
				added = added || h.get("header", "key").text() == requestIDHeader
			}
		}
		if !added {
			c.report(r.route, requestID, "nothing adds %s", requestIDHeader)
		}
	}
	c.require(h.hcm, rawPath, "normalize_path")
	c.require(h.hcm, rawPath, "merge_slashes")
	switch n := h.hcm.get("path_with_escaped_slashes_action"); n.text() {
	case "REJECT_REQUEST", "UNESCAPE_AND_REDIRECT", "UNESCAPE_AND_FORWARD":
	default:
		c.report(n.or(h.hcm), rawPath, "path_with_escaped_slashes_action is not REJECT_REQUEST")
	}
}

// routerA checks a route to the inner hop.
func (c *checker) routerA(r route) {
	c.retryPolicy(r)
	if n := r.effective("hedge_policy"); isSet(n) {
		c.report(n, hedging, "hedge_policy")
	}
	c.forbid(r.action(), outerRedirect, "internal_redirect_policy")
	if !r.host.get("include_request_attempt_count").isTrue() {
		c.report(r.host, noAttemptCount, "include_request_attempt_count is not true")
	}
	if !replayLimit(r).exists() {
		c.report(r.host, noReplayLimit, "no replay limit")
	}
	if n := r.action().get("timeout"); n.exists() {
		switch d, ok := n.duration(); {
		case ok && d == 0:
			c.report(n, noDeadline, "timeout: 0s")
		case ok:
			c.timeouts = append(c.timeouts, Deadline{Line: n.yaml.Line, Column: n.yaml.Column, Timeout: d})
		}
	}
	for _, field := range []string{"prefix_rewrite", "regex_rewrite", "path_rewrite_policy", "path_rewrite"} {
		if n := r.action().get(field); isSet(n) {
			c.report(n, outerRewrite, "%s", field)
		}
	}
	for _, level := range r.levels() {
		for _, n := range level.get("response_headers_to_remove").items() {
			if strings.HasPrefix(n.text(), evidence.PrefixVerdict) || strings.HasPrefix(n.text(), evidence.PrefixReport) {
				c.report(n, hiddenFacts, "%s", n.text())
			}
		}
	}
}

func (c *checker) retryPolicy(r route) {
	policy := r.effective("retry_policy")
	if !policy.exists() {
		at := r.effective("retry_policy_typed_config").or(r.action())
		c.report(at, retryOn, "no retry_policy")
		return
	}
	if n := policy.get("retry_on"); strings.TrimSpace(n.text()) != "retriable-headers" {
		c.report(n.or(policy), retryOn, "retry_on is %q", n.text())
	}
	if headers := policy.get("retriable_headers"); !onlyControl(headers.items()) {
		c.report(headers.or(policy), retryOn, "retriable_headers")
	}
	for _, field := range []string{"retriable_status_codes", "retriable_request_headers", "retry_options_predicates"} {
		if n := policy.get(field); isSet(n) {
			c.report(n, retryOn, "%s", field)
		}
	}
	if n := policy.get("num_retries"); n.text() == "0" {
		c.report(n, retryOn, "num_retries: 0")
	}
	c.forbid(policy, perTry, "per_try_timeout", "per_try_idle_timeout")
	c.forbid(policy, routerWaits, "rate_limited_retry_back_off")
	backOff := policy.get("retry_back_off")
	longest, ok := backOff.get("max_interval").or(backOff.get("base_interval")).duration()
	if !ok || longest > 10*time.Millisecond {
		c.report(backOff.or(policy), routerWaits, "retry_back_off")
	}
}

// onlyControl: one header, one value, in the current or the deprecated spelling.
func onlyControl(headers []node) bool {
	if len(headers) != 1 {
		return false
	}
	h := headers[0]
	value := h.get("string_match", "exact").or(h.get("exact_match"))
	return h.get("name").text() == evidence.Control && value.text() == evidence.ControlRetry &&
		!h.get("invert_match").isTrue() && !h.get("treat_missing_header_as_empty").isTrue() && !h.get("string_match", "ignore_case").isTrue()
}

func replayLimit(r route) node {
	return r.route.get("request_body_buffer_limit").or(r.host.get("request_body_buffer_limit"))
}

// overrides reports a route that changes one of our filters for itself.
func (c *checker) overrides(r route, filters []filter) {
	levels := append(r.levels(), r.action().get("weighted_clusters", "clusters").items()...)
	for i, level := range levels {
		for _, f := range filters {
			name := f.node.get("name").text()
			if n := level.get("typed_per_filter_config").get(name); n.exists() && (f.ours() || f.ofCredential()) && !(i < len(r.levels()) && f.switches(n)) {
				c.report(n, switchedOff, "typed_per_filter_config of %s", name)
			}
		}
	}
}

// ours reports whether the filter is a part of the topology.
func (f filter) ours() bool {
	return f.role != "" || f.removes(evidence.PrefixVerdict) || f.writes("x-verdict-outer") || f.writes(factsHeader) || f.writes(evidence.ReportVerdict) || f.isHead()
}
