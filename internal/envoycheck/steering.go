package envoycheck

import (
	"slices"
	"strings"
)

// steering are the request headers that a router obeys, or that the head copies, whoever has set them: the early
// header mutation takes them from clients, not from what is added behind it.
var steering = []string{
	"x-envoy-attempt-count",
	"x-envoy-expected-rq-timeout-ms",
	"x-envoy-hedge-on-per-try-timeout",
	"x-envoy-max-retries",
	"x-envoy-original-url",
	"x-envoy-retriable-header-names",
	"x-envoy-retriable-status-codes",
	"x-envoy-retry-grpc-on",
	"x-envoy-retry-on",
	"x-envoy-upstream-rq-per-try-timeout-ms",
	"x-envoy-upstream-rq-timeout-alt-response",
}

// ownReplies finds where a hop gives its own replies a status that nobody takes for Envoy's failure.
func (c *checker) ownReplies(h *hop) {
	for _, m := range h.hcm.get("local_reply_config", "mappers").items() {
		n, only := m.get("status_code"), m.get("filter", "status_code_filter", "comparison")
		of, known := only.get("value", "default_value").number()
		if op := only.get("op").text(); known && (op == "" || op == "EQ") && of < 500 && of != 408 {
			continue // replies that say themselves that the request was refused
		}
		if status, ok := n.number(); n.exists() && (!ok || status < 500 || status > 599) {
			c.report(n, ownStatus, "status_code %s", n.get("value").or(n).text())
		}
	}
}

// steers finds where a hop's routes and its header mutations set such a header.
func (c *checker) steers(h *hop) {
	if !h.hcm.walk(func(field string, n node) bool {
		var key node
		switch field {
		case "request_headers_to_add", "requestHeadersToAdd":
			key = n.get("header", "key")
		case "mutations", "request_mutations", "requestMutations":
			key = n.get("append", "header", "key")
		}
		if slices.Contains(steering, strings.ToLower(key.text())) {
			c.report(key, steered, "%s", key.text())
		}
		return true
	}) {
		c.report(h.hcm, tooMuch, "the connection manager")
	}
}
