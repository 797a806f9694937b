package envoycheck

import (
	"slices"
	"strings"
)

// hop is an HTTP connection manager with its filters and the routes in the file.
type hop struct {
	listener string
	hcm      node
	filters  []filter
	routes   []route
}

// route is a route with what stands around it.
type route struct{ config, host, route node }

func (r route) action() node { return r.route.get("route") }

// effective returns a field of the route's action, or what the virtual host or the route configuration
// says in its place.
func (r route) effective(field string) node {
	return r.action().get(field).or(r.host.get(field)).or(r.config.get(field))
}

// levels are the places where headers are added and removed.
func (r route) levels() []node { return []node{r.route, r.host, r.config} }

// clusters are the clusters that the route names. known is false if it may lead to others.
func (r route) clusters() (names []string, known bool) {
	action := r.action()
	if name := action.get("cluster"); name.exists() {
		names = append(names, name.text())
	}
	for _, w := range action.get("weighted_clusters", "clusters").items() {
		names = append(names, w.get("name").text())
	}
	return names, !action.exists() || len(names) > 0 && !slices.Contains(names, "")
}

// filter is an HTTP filter, taken out of its matcher.
type filter struct {
	node    node // the entry of http_filters
	message string
	config  node
	matcher node // of the ExtensionWithMatcher around it
	role    string
}

// bootstrap finds the two hops and checks each.
func (c *checker) bootstrap(root node) {
	if root.get("dynamic_resources").exists() {
		c.report(root.get("dynamic_resources"), unseen, "dynamic_resources")
	}
	for _, layer := range root.get("layered_runtime", "layers").items() {
		const guard = "envoy.reloadable_features.skip_ext_proc_on_local_reply"
		static := layer.get("static_layer")
		if n := static.get(guard).or(static.get(strings.Split(guard, ".")...)); n.isTrue() {
			c.report(n, skipsLocal, "%s", guard)
		}
	}
	c.clusters = make(map[string]node)
	for _, cluster := range root.get("static_resources", "clusters").items() {
		c.clusters[cluster.get("name").text()] = cluster
	}
	var outer, inner []*hop
	for _, listener := range root.get("static_resources", "listeners").items() {
		for _, hcm := range connectionManagers(listener) {
			h := &hop{listener.get("name").text(), hcm, filters(hcm), routes(hcm)}
			if listener.get("internal_listener").exists() {
				inner = append(inner, h)
			} else {
				outer = append(outer, h)
			}
		}
	}
	pairs := 0
	for _, a := range outer {
		for _, b := range inner {
			if p := c.pair(a, b); len(p.leading) > 0 {
				c.check(p)
				pairs++
			}
		}
	}
	if pairs == 0 {
		c.report(root.get("static_resources", "listeners"), noHop, "no two hops")
	}
}

// pair is an outer hop and an inner one that some of its routes lead to. Another listener of the same
// Envoy, of which no route leads inwards, is none of our business.
type pair struct {
	outer, inner    *hop
	leading, others []route
	entries         []node // the clusters that lead inwards
}

func (c *checker) pair(outer, inner *hop) pair {
	p := pair{outer: outer, inner: inner}
	for _, r := range outer.routes {
		names, _ := r.clusters()
		leads, elsewhere := false, false
		for _, name := range names {
			switch cluster := c.clusters[name]; internalListener(cluster) {
			case inner.listener:
				p.entries = append(p.entries, cluster)
				leads = true
			case "":
				elsewhere = true
			}
		}
		if leads {
			p.leading = append(p.leading, r)
		}
		if elsewhere || !leads && len(names) == 0 && r.action().exists() {
			p.others = append(p.others, r)
		}
	}
	return p
}

func (c *checker) check(p pair) {
	for _, r := range p.others {
		c.report(r.route, bypass, "a route to another cluster")
	}
	for _, cluster := range p.entries {
		c.entryCluster(cluster)
		c.connection(cluster, p.inner)
	}
	c.outer(p.outer, p.leading)
	c.inner(p.inner)
	c.together(p)
	c.credential(p)
}

func internalListener(cluster node) string {
	for _, locality := range cluster.get("load_assignment", "endpoints").items() {
		for _, endpoint := range locality.get("lb_endpoints").items() {
			if name := endpoint.get("endpoint", "address", "envoy_internal_address", "server_listener_name"); name.exists() {
				return name.text()
			}
		}
	}
	return ""
}

func connectionManagers(listener node) []node {
	chains := append(listener.get("filter_chains").items(), listener.get("default_filter_chain"))
	var found []node
	for _, chain := range chains {
		for _, f := range chain.get("filters").items() {
			if message, config := f.typed(); strings.HasSuffix(message, ".HttpConnectionManager") {
				found = append(found, config)
			}
		}
	}
	return found
}

func routes(hcm node) []route {
	configs := []node{hcm.get("route_config")}
	for _, scoped := range hcm.get("scoped_routes", "scoped_route_configurations_list", "scoped_route_configurations").items() {
		configs = append(configs, scoped.get("route_configuration"))
	}
	var found []route
	for _, config := range configs {
		for _, host := range config.get("virtual_hosts").items() {
			for _, r := range host.get("routes").items() {
				found = append(found, route{config, host, r})
			}
		}
	}
	return found
}

func filters(hcm node) []filter {
	var found []filter
	for _, n := range hcm.get("http_filters").items() {
		f := filter{node: n}
		f.message, f.config = n.typed()
		if strings.HasSuffix(f.message, ".ExtensionWithMatcher") {
			f.matcher = f.config.get("xds_matcher").or(f.config.get("matcher"))
			f.message, f.config = f.config.get("extension_config").typed()
		}
		if strings.HasSuffix(f.message, ".ExternalProcessor") {
			f.role = metadataOf(f).get(roleKey).text()
		}
		found = append(found, f)
	}
	return found
}

// fetchesPages reports each place where a filter would send a request of its own for an error page; a reply
// that Envoy makes itself (LocalResponsePolicy) does no harm.
func (c *checker) fetchesPages(h *hop, r *rule) {
	if !h.hcm.walk(func(_ string, n node) bool {
		for _, message := range []node{n.get("@type"), n.get("type_url")} {
			if strings.HasSuffix(message.text(), ".custom_response.redirect_policy.v3.RedirectPolicy") {
				c.report(message, r, "RedirectPolicy")
			}
		}
		return true
	}) {
		c.report(h.hcm, tooMuch, "the connection manager")
	}
}

// is compares the last part of the filter's message name.
func (f filter) is(message string) bool {
	return strings.HasSuffix(f.message, "."+message)
}

// removes reports whether the filter takes a prefix off every response.
func (f filter) removes(prefix string) bool {
	if !f.is("HeaderMutation") || f.matcher.exists() {
		return false
	}
	return removesPrefix(f.config.get("mutations", "response_mutations").items(), prefix)
}

func removesPrefix(mutations []node, prefix string) bool {
	for _, m := range mutations {
		if p := m.get("remove_on_match", "key_matcher", "prefix").text(); p != "" && strings.HasPrefix(prefix, p) {
			return true
		}
	}
	return false
}

// writes reports whether the filter sets a header on responses.
func (f filter) writes(header string) bool {
	return f.is("HeaderMutation") && sets(f.config.get("mutations", "response_mutations").items(), header)
}

func sets(mutations []node, header string) bool {
	for _, m := range mutations {
		if m.get("append", "header", "key").text() == header {
			return true
		}
	}
	return false
}

// index returns the place of the first filter that fits, or -1.
func (h *hop) index(fits func(filter) bool) int { return slices.IndexFunc(h.filters, fits) }

func hasRole(role string) func(filter) bool {
	return func(f filter) bool { return f.role == role }
}
