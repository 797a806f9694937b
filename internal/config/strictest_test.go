package config

import (
	"testing"

	"github.com/verdictproxy/verdict/pkg/decision"
)

func TestStrictestDeclared(t *testing.T) {
	c, err := Parse("test", []byte(`
upstreams:
- clusters: [plain]
- clusters: [safe]
  operations: [{pattern: "POST /search", idempotency: safe}]
- clusters: [keyed]
  operations: [{pattern: "POST /search", idempotency: safe}, {route_operation: pay, idempotency: idempotent_with_key}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for cluster, want := range map[string]decision.Idempotency{
		"undeclared": decision.Safe,
		"plain":      decision.Safe,
		"safe":       decision.Safe,
		"keyed":      decision.IdempotentWithKey,
		"":           decision.IdempotentWithKey,
	} {
		if got := c.StrictestDeclared(cluster); got != want {
			t.Errorf("%q: %v, want %v", cluster, got, want)
		}
	}
}
