package config

import (
	"net"

	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// RedisBudget is the value of budget.backend for budgets that are shared by way of a server.
const RedisBudget = "redis"

// Budget says where the retry budgets are kept; its backend is always set. It must not be changed.
func (c *Config) Budget() *retryv1.BudgetBackend { return c.resolved.GetBudget() }

// resolveBudget writes out the default backend, and checks what only the whole can show.
func (d *document) resolveBudget() {
	if d.config.Budget == nil {
		d.config.Budget = &retryv1.BudgetBackend{}
	}
	b := d.config.Budget
	if b.Backend == nil {
		b.Backend = proto.String("memory")
	}
	at := func(field ...any) []any { return append([]any{"budget"}, field...) }
	if b.GetBackend() != RedisBudget {
		for field, set := range map[string]bool{
			"address": b.GetAddress() != "", "sentinel": b.Sentinel != nil, "username": b.GetUsername() != "",
			"password_file": b.GetPasswordFile() != "", "tls": b.Tls != nil, "key_prefix": b.GetKeyPrefix() != "",
		} {
			if set {
				d.addAt(at(field), "is of no use without backend: redis")
			}
		}
		return
	}
	switch {
	case b.GetAddress() != "" && b.Sentinel != nil:
		d.addAt(at("sentinel"), "stands beside address: only one of them finds the server")
	case b.GetAddress() != "":
		d.checkAddress(b.GetAddress(), at("address"))
	case b.Sentinel == nil:
		d.addAt(at(), "backend redis needs address or sentinel")
	}
	for i, address := range b.GetSentinel().GetAddresses() {
		d.checkAddress(address, at("sentinel", "addresses", i))
	}
	if t := b.Tls; t != nil && (t.GetCertFile() == "") != (t.GetKeyFile() == "") {
		d.addAt(at("tls"), "cert_file and key_file belong together")
	}
}

func (d *document) checkAddress(address string, at []any) {
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		d.addAt(at, "%q is not HOST:PORT", address)
	}
}
