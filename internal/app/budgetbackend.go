package app

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
	"github.com/verdictproxy/verdict/pkg/budget/redis"
	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
)

// backend is a budget that can be told that its settings have changed; see memory.Budget's Reload.
type backend interface {
	budget.Budget
	Reload()
}

// openBudget opens the backend that the configuration names at this moment; the settings of its accounts
// are those in force. An error is a file that cannot be read; a Redis that is not there is none.
func openBudget(inForce func() *config.Config, events *budget.EventLog, registry prometheus.Registerer, log *slog.Logger) (backend, error) {
	settings := func(upstream string) budget.Settings { return inForce().Upstream(upstream).Budget() }
	backend := inForce().Budget()
	if backend.GetBackend() != config.RedisBudget {
		return memory.New(settings, memory.Options{Clock: machineClock, Log: events}), nil
	}
	metrics := telemetry.NewSharedBudget(registry)
	server, err := redisServer(backend)
	if err != nil {
		return nil, err
	}
	o := redis.Options{
		Server:       server,
		Prefix:       backend.GetKeyPrefix(),
		Clock:        machineClock,
		Log:          events,
		Logger:       log,
		OnCall:       metrics.Call,
		OnLocalGrant: metrics.LocalGrant,
		OnConnected:  metrics.Connected,
	}
	return redis.New(settings, o)
}

// redisServer says where the configured Redis is. An error is a file that cannot be read.
func redisServer(backend *retryv1.BudgetBackend) (o conn.Options, err error) {
	o = conn.Options{
		Addresses:    []string{backend.GetAddress()},
		Username:     backend.GetUsername(),
		PasswordFile: backend.GetPasswordFile(),
	}
	if s := backend.GetSentinel(); s != nil {
		o.Addresses, o.SentinelMaster = s.GetAddresses(), s.GetMaster()
	}
	if o.TLS, err = config.ClientTLS(backend.GetTls()); err != nil {
		return o, fmt.Errorf("budget: tls: %w", err)
	}
	return o, nil
}
