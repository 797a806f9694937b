package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
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
	if o.TLS, err = clientTLS(backend.GetTls()); err != nil {
		return nil, fmt.Errorf("budget: tls: %w", err)
	}
	return redis.New(settings, o)
}

func clientTLS(t *retryv1.ClientTLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.GetServerName(), MinVersion: tls.VersionTLS12}
	if file := t.GetCaFile(); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in it", file)
		}
	}
	if t.GetCertFile() != "" {
		pair, err := tls.LoadX509KeyPair(t.GetCertFile(), t.GetKeyFile())
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
