package config

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// FuzzParse: no bytes panic; every problem has the file's name; what is understood is understood
// again from its own print, and permits nothing that its policy does not.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "---\n", "defaults: {}", "defaults:\n  backoff: {base: 1s}\n",
		"defaults: {budget: {ratio: 0.5, min_retries_per_second: 1e1, interval: 1m}}",
		"upstreams: [{clusters: [a], operations: [{pattern: 'POST /a/{b...}', idempotency: idempotent_with_key}, {route_operation: x, idempotency: safe}]}]",
		"upstreams: [{clusters: [a], credential: {oauth2: {token_url: 'https://a', client_id: b, client_secret_file: c, scopes: [d], endpoint_params: [{name: e}], tls: {}}}}]",
		"upstreams: [{clusters: [a], credential: {token_file: {path: b}, scheme: c, first_attempts: true}}]",
		"a: &a [*a]", "? [a]\n: !!binary b", "upstreams: [{clusters: [a], policy: {transient_statuses: []}}]", "\ufeff{", "x: |\r\n  y\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f.yaml", data)
		if err != nil {
			problems := err.(Problems)
			for _, p := range problems {
				if !strings.HasPrefix(p.Error(), "f.yaml:") {
					t.Errorf("no place in %q", p.Error())
				}
			}
			return
		}
		out, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("again.yaml", out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, cluster := range append(c.Clusters(), "") {
			u, v := c.Upstream(cluster), again.Upstream(cluster)
			if u.policy != v.policy || u.budget != v.budget || u.ambiguous != v.ambiguous || u.Name() != v.Name() {
				t.Errorf("cluster %q means something else after\n%s", cluster, out)
			}
			if p := u.Policy(); p.MaxAttempts < 1 || p.MaxAttempts > 10 || p.Backoff.Base > p.Backoff.Max || u.Budget().Validate() != nil {
				t.Errorf("cluster %q has %+v, %v", cluster, p, u.Budget())
			}
		}
	})
}

// FuzzOperation: what no pattern matches in net/http's reading never loosens, whatever the path.
func FuzzOperation(f *testing.F) {
	c, err := Parse("f.yaml", []byte(`
upstreams:
- clusters: [loose]
  operations:
  - {pattern: "/{all...}", idempotency: idempotent}
- clusters: [mixed]
  operations:
  - {pattern: "PUT /pay", idempotency: non_idempotent}
  - {pattern: "PUT /", idempotency: idempotent}
  - {pattern: "POST /orders/{id}", idempotency: idempotent_with_key}
`))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range []string{"/pay", "//pay", "/Pay/", "/pay.json", "/%70ay", "/x/../pay", "/pay;a", "/pay?x", "/orders/1", "*", ""} {
		f.Add("PUT", path)
		f.Add("POST", path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		_, loose := c.Upstream("loose").Operation(method, path, "")
		if _, plain := plainPath(path); !plain && loose > decision.MethodClass(method) {
			t.Errorf("%q %q is %v", method, path, loose)
		}
		_, mixed := c.Upstream("mixed").Operation(method, path, "")
		clean := strings.ToLower(strings.TrimSuffix(path, "/"))
		if method == "PUT" && clean == "/pay" && mixed != decision.NonIdempotent {
			t.Errorf("%q %q is %v", method, path, mixed)
		}
		if least := c.Strictest(method, path); least > min(loose, mixed, decision.MethodClass(method)) {
			t.Errorf("%q %q: the strictest is %v", method, path, least)
		}
	})
}
