package app

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
	"github.com/verdictproxy/verdict/pkg/budget/redis"
)

// openBudget opens the backend that the configuration names. An error is a file that cannot be read; a
// Redis that is not there is none.
func openBudget(cfg *config.Config, events *budget.EventLog, registry prometheus.Registerer, log *slog.Logger) (budget.Budget, error) {
	settings := func(upstream string) budget.Settings { return cfg.Upstream(upstream).Budget() }
	backend := cfg.Budget()
	if backend.GetBackend() != config.RedisBudget {
		return memory.New(settings, memory.Options{Clock: machineClock, Log: events}), nil
	}
	metrics := telemetry.NewSharedBudget(registry)
	o := redis.Options{
		Addresses:    []string{backend.GetAddress()},
		Username:     backend.GetUsername(),
		PasswordFile: backend.GetPasswordFile(),
		Prefix:       backend.GetKeyPrefix(),
		Clock:        machineClock,
		Log:          events,
		Logger:       log,
		OnCall:       metrics.Call,
		OnLocalGrant: metrics.LocalGrant,
		OnConnected:  metrics.Connected,
	}
	if s := backend.GetSentinel(); s != nil {
		o.Addresses, o.SentinelMaster = s.GetAddresses(), s.GetMaster()
	}
	var err error
	if o.TLS, err = config.ClientTLS(backend.GetTls()); err != nil {
		return nil, fmt.Errorf("budget: tls: %w", err)
	}
	return redis.New(settings, o)
}
