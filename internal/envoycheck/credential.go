package envoycheck

import (
	"slices"
	"strings"
	"time"

	"github.com/verdictproxy/verdict/internal/evidence"
)

const (
	credentialRole  = "credential"
	credentialState = "verdict.credential"
	markState       = "verdict.mark"
	credentialFact  = "x-verdict-credential"
	waits, passed   = "pending", "set"
	injectorMessage = "CredentialInjector"
	routeSwitch     = "envoy.config.route.v3.FilterConfig"
)

// Credentialed is a cluster that an inner route leads to, and where the attempts on that route get their
// credential from.
type Credentialed struct {
	Cluster      string
	Line, Column int // of the route
	// Later: attempts after the first get it from Verdict. First: the first one does too. Injected: the first
	// one gets it from Envoy's credential injector.
	Later, First, Injected bool
}

// credential checks the parts of envoy/credential.yaml where a route switches the credential filter on, and
// says of every route where its attempts get their credential.
func (c *checker) credential(p pair) {
	h := p.inner
	at := h.index(hasRole(credentialRole))
	used := false
	for _, r := range h.routes {
		names, _ := r.clusters()
		later := at >= 0 && c.isOn(h.filters[at], r)
		injector := h.index(func(f filter) bool { return f.is(injectorMessage) })
		use := Credentialed{
			Line: r.route.yaml.Line, Column: r.route.yaml.Column,
			Later: later, First: later && !skipsFirst(h.filters[at]),
			Injected: injector >= 0 && c.isOn(h.filters[injector], r),
		}
		for _, name := range names {
			use.Cluster = name
			if !slices.Contains(c.credentialed, use) {
				c.credentialed = append(c.credentialed, use)
			}
		}
		if !later {
			c.neverSet(h, r)
		} else {
			used = true
			c.marks(h, at, r)
			c.keepsCredential(r)
			if injector > at && use.Injected {
				c.report(h.filters[injector].node, credentialReplaced, "an injector behind the credential filter")
			}
		}
	}
	if used {
		c.setter(h.filters[at])
		c.keepsRoute(h.filters[at:])
		c.noClientCredential(p)
		c.informed(h)
	}
}

// isOn reports whether the filter runs on the route: its own state, and what the most specific level says.
func (c *checker) isOn(f filter, r route) bool {
	name := f.node.get("name").text()
	for _, level := range r.levels() {
		if n := level.get("typed_per_filter_config").get(name); n.exists() {
			return !n.get("disabled").isTrue()
		}
	}
	return !f.node.get("disabled").isTrue()
}

// skipsFirst reports whether a matcher keeps attempt 1 away; an empty one keeps nothing away.
func skipsFirst(f filter) bool { return len(f.matcher.words()) > 1 }

// setter checks the credential filter itself.
func (c *checker) setter(f filter) {
	c.verdictCluster(f.config.get("grpc_service"))
	if n := f.config.get("failure_mode_allow"); n.isTrue() {
		c.report(n, credentialOpen, "failure_mode_allow")
	}
	c.forbid(f.config, credentialOpen, "observability_mode", "mutation_rules")
	mode := f.config.get("processing_mode")
	for field, accepted := range map[string][]string{
		"request_header_mode": {"", "DEFAULT", "SEND"}, "response_header_mode": {"SKIP"},
		"request_body_mode": {"", "NONE"}, "response_body_mode": {"", "NONE"},
		"request_trailer_mode": {"", "DEFAULT", "SKIP"}, "response_trailer_mode": {"", "DEFAULT", "SKIP"},
	} {
		if n := mode.get(field); !slices.Contains(accepted, n.text()) {
			c.report(n.or(mode).or(f.node), credentialMode, "%s is %q", field, n.text())
		}
	}
	if !hasAttribute(f, "xds.cluster_name", "request_attributes") {
		c.report(f.config.get("request_attributes").or(f.node), credentialCluster, "request_attributes lacks xds.cluster_name")
	}
	timeout, ok := f.config.get("message_timeout").duration()
	if !ok {
		timeout = 200 * time.Millisecond // Envoy's default
	}
	c.equals(f, evidence.MetadataMaxWait, "message_timeout in ms", uint64(timeout.Milliseconds()))
	if !skipsFirst(f) {
		return // every attempt
	}
	var one node
	matchers := f.matcher.get("matcher_list", "matchers").items()
	if len(matchers) > 0 {
		one = matchers[0].get("predicate", "single_predicate")
	}
	_, input := one.get("input").typed()
	if len(matchers) != 1 || f.matcher.get("on_no_match").exists() || !strings.EqualFold(input.get("header_name").text(), "x-envoy-attempt-count") ||
		one.get("value_match", "exact").text() != "1" || one.get("value_match", "ignore_case").isTrue() {
		c.report(f.matcher, credentialSkipped, "its matcher")
	}
}

// marks checks the two filters around the credential filter, on one route.
func (c *checker) marks(h *hop, at int, r route) {
	marked := func(i int, word string) bool {
		if i < 0 || i >= len(h.filters) {
			return false
		}
		f := h.filters[i]
		return strings.HasSuffix(f.message, ".set_filter_state.v3.Config") && !f.matcher.exists() &&
			f.state(credentialState).text() == word && c.isOn(f, r)
	}
	if !marked(at-1, waits) || !marked(at+1, passed) {
		c.report(h.filters[at].node, credentialMarks, "not between %s and %s", waits, passed)
	}
	for i, f := range h.filters {
		if n := f.state(credentialState); n.exists() && i != at-1 && i != at+1 {
			c.report(n, credentialMarks, "a third mark")
		}
	}
}

// neverSet: on a route without the credential filter nothing may be marked as waiting for it.
func (c *checker) neverSet(h *hop, r route) {
	for _, f := range h.filters {
		if n := f.state(credentialState); n.text() == waits && c.isOn(f, r) {
			c.report(r.route, credentialMarks, "%s without the credential filter", waits)
		}
	}
}

// keepsCredential: router B does what the route says of headers behind all filters.
func (c *checker) keepsCredential(r route) {
	hidden := false
	for _, level := range r.levels() {
		for _, n := range level.get("request_headers_to_remove").items() {
			hidden = hidden || strings.EqualFold(n.text(), evidence.Mark)
			if strings.EqualFold(n.text(), evidence.Authorization) {
				c.report(n, credentialLost, "request_headers_to_remove")
			}
		}
		for _, n := range level.get("request_headers_to_add").items() {
			if key := n.get("header", "key"); strings.EqualFold(key.text(), evidence.Authorization) {
				c.report(key, credentialLost, "request_headers_to_add")
			}
		}
	}
	if !hidden {
		c.report(r.route, markLeaks, "%s reaches the upstream", evidence.Mark)
	}
}

// keepsRoute looks for what has Envoy choose the route anew, in the credential filter and those behind it.
func (c *checker) keepsRoute(filters []filter) {
	for _, f := range filters {
		f.config.walk(func(field string, n node) bool {
			switch {
			case (field == "route_cache_action" || field == "routeCacheAction") && n.text() == "CLEAR",
				(field == "clear_route_cache" || field == "clearRouteCache") && n.isTrue():
				c.report(n, credentialRoute, "%s", field)
			}
			return true
		})
	}
}

// noClientCredential: the outer hop takes clients' authorization away, before a route is chosen or where
// router A sends the request inwards.
func (c *checker) noClientCredential(p pair) {
	early := p.outer.hcm.get("early_header_mutation_extensions")
	for _, extension := range early.items() {
		_, config := extension.typed()
		if removesHeader(config.get("mutations").items(), evidence.Authorization) {
			return
		}
	}
	for _, r := range p.leading {
		removed := false
		for _, level := range r.levels() {
			for _, n := range level.get("request_headers_to_remove").items() {
				removed = removed || strings.EqualFold(n.text(), evidence.Authorization)
			}
		}
		if !removed {
			c.report(early.or(p.outer.hcm), clientCredential, "early_header_mutation_extensions does not remove %s", evidence.Authorization)
			return
		}
	}
}

func removesHeader(mutations []node, header string) bool {
	for _, m := range mutations {
		if strings.EqualFold(m.get("remove").text(), header) {
			return true
		}
	}
	return removesPrefix(mutations, header)
}

// informed checks what the judge is told.
func (c *checker) informed(h *hop) {
	if facts := h.index(func(f filter) bool { return f.writes(factsHeader) }); facts >= 0 && !h.filters[facts].writes(credentialFact) {
		c.report(h.filters[facts].node, credentialFacts, "the facts lack %s", credentialFact)
	}
	at := h.index(hasRole("judge"))
	if at < 0 {
		return
	}
	judge := h.filters[at]
	if !hasAttribute(judge, "request.headers['"+evidence.Authorization+"']", "request_attributes", "response_attributes") {
		c.report(judge.node, credentialUnseen, "no attribute request.headers['%s']", evidence.Authorization)
	}
	kept := false
	for _, f := range h.filters {
		kept = kept || strings.EqualFold(f.state(markState).text(), "%REQ("+evidence.Mark+")%")
	}
	if !kept || !hasAttribute(judge, "filter_state['"+markState+"']", "request_attributes", "response_attributes") {
		c.report(judge.node, credentialMark, "the header %s does not get to the judge as the filter state %s", evidence.Mark, markState)
	}
}

func hasAttribute(f filter, attribute string, lists ...string) bool {
	for _, list := range lists {
		for _, n := range f.config.get(list).items() {
			if n.text() == attribute {
				return true
			}
		}
	}
	return false
}

// switches reports whether a route's entry for a filter only switches a part of envoy/credential.yaml on
// or off.
func (f filter) switches(entry node) bool {
	message := entry.get("@type").text()
	return f.ofCredential() && strings.HasSuffix(message, "/"+routeSwitch) && len(entry.get("config").words()) <= 1
}

// ofCredential reports whether the filter is a part of envoy/credential.yaml, which routes switch on.
func (f filter) ofCredential() bool {
	return f.role == credentialRole || f.is(injectorMessage) || f.state(credentialState).exists()
}
