package app

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/memory"
	"github.com/verdictproxy/verdict/internal/ledger/redis"
	"github.com/verdictproxy/verdict/internal/telemetry"
)

// openLedger opens a ledger where the budgets are: in memory, or in the Redis that the fleet shares. An
// error is a file that cannot be read; a Redis that is not there is none.
func openLedger(cfg *config.Config, size int, registry prometheus.Registerer, log *slog.Logger) (ledger.Ledger, error) {
	backend := cfg.Budget()
	if backend.GetBackend() != config.RedisBudget {
		l := memory.New(size, nil)
		telemetry.Cases(registry, l.Count)
		return l, nil
	}
	server, err := redisServer(backend)
	if err != nil {
		return nil, err
	}
	l, err := redis.New(redis.Options{Server: server, Prefix: backend.GetKeyPrefix(), Size: size, Logger: log})
	if err != nil {
		return nil, err
	}
	telemetry.Cases(registry, l.Count)
	telemetry.SharedLedger(registry, l.Connected, l.Waiting)
	return l, nil
}
