package config

import "github.com/verdictproxy/verdict/pkg/decision"

// StrictestDeclared returns the strictest class that is declared for any operation of an upstream,
// Safe where none is; for "", of all upstreams. It bounds what may be believed of an operation that has
// no name.
func (c *Config) StrictestDeclared(cluster string) decision.Idempotency {
	if cluster != "" {
		return c.Upstream(cluster).operations.strictestDeclared()
	}
	least := decision.Safe
	for _, u := range c.upstreams {
		least = min(least, u.operations.strictestDeclared())
	}
	return least
}

func (o *operations) strictestDeclared() decision.Idempotency {
	least := decision.Safe
	for _, op := range o.byPattern {
		least = min(least, op.class)
	}
	for _, op := range o.byRoute {
		least = min(least, op.class)
	}
	return least
}
