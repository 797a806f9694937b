package app

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// TestCheckUnjudged: what the configuration calls uncertain, Envoy's own filter must too.
func TestCheckUnjudged(t *testing.T) {
	plain, err := filepath.Abs(hopYAML)
	if err != nil {
		t.Fatal(err)
	}
	hop := contents(t, plain)
	distrusting := strings.Replace(hop, `50[234]|`, `429|50[234]|`, 1)
	methods := strings.Replace(hop, `"GET|HEAD|OPTIONS|TRACE"`, `"HEAD|OPTIONS"`, 1)
	if distrusting == hop || methods == hop {
		t.Fatal("hop.yaml has other words")
	}
	without, err := stack.Render(nil, stack.NewPatch("no label", stack.Remove(stack.HTTPFilter("outer", "unjudged"))))
	if err != nil {
		t.Fatal(err)
	}
	const (
		distrusted = "upstreams: [{clusters: [app], policy: {distrusted_statuses: [429]}}]\n"
		getting    = "upstreams: [{clusters: [app], operations: [{name: a, pattern: GET /a, idempotency: non_idempotent}]}]\n"
	)
	for name, test := range map[string]struct{ config, envoy, want string }{
		"nothing":                          {"{}\n", hop, ""},
		"a distrusted status":              {distrusted, hop, "distrusted_statuses has 429"},
		"a distrusted status, of all":      {"defaults: {distrusted_statuses: [408, 429]}\n", distrusting, "distrusted_statuses has 408"},
		"a distrusted status that it has":  {distrusted, distrusting, ""},
		"a GET that is not safe":           {getting, hop, `"GET /a" is declared non_idempotent`},
		"a GET that is not safe, left out": {getting, methods, ""},
		"a GET that is safe":               {strings.Replace(getting, "non_idempotent", "safe", 1), hop, ""},
		"a PUT":                            {strings.Replace(getting, "GET", "PUT", 1), hop, ""},
		"no filter":                        {"{}\n", string(without), "(unjudged)"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errors := check(t, file(t, test.config), "--envoy", file(t, test.envoy))
			if (code != 0) != (test.want != "") || !strings.Contains(errors, test.want) || strings.Count(errors, "\n") != min(len(test.want), 1) {
				t.Errorf("exit code %d, want one line with %q:\n%s", code, test.want, errors)
			}
		})
	}
}
