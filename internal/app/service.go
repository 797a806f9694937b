package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/credential"
	"github.com/verdictproxy/verdict/internal/decisionapi"
	"github.com/verdictproxy/verdict/internal/extproc"
	"github.com/verdictproxy/verdict/internal/recent"
	"github.com/verdictproxy/verdict/internal/switches"
	"github.com/verdictproxy/verdict/internal/telemetry"
)

// lameDuck is how long a draining process goes on answering, so that Envoy's health check (1 s
// interval, 0.5 s timeout) has seen it leave before it is gone.
const lameDuck = 2 * time.Second

// service is one running program: what its servers share.
type service struct {
	flags       *ServeCmd
	log         *slog.Logger
	registry    *prometheus.Registry
	drain       *extproc.Drain
	health      *health.Server
	api         *api
	credentials *credential.Set
	// configuration is the one in force. What depends on it otherwise than by reading it at each use hooks in
	// by its onReload.
	configuration *configuration
	// listeners belong to the servers once serve has begun.
	listeners *opened
	closers   []func()
	console   pages
}

// build opens what the program needs. After an error nothing is left open.
func (c *ServeCmd) build(log *slog.Logger) (s *service, err error) {
	s = &service{flags: c, log: log, registry: prometheus.NewRegistry(), drain: extproc.NewDrain(), health: health.NewServer()}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.configuration, err = loadConfiguration(c, s.registry, log); err != nil {
		return s, err
	}
	s.onClose(s.configuration.catchHangup())
	s.api = &api{
		config:   s.configuration.get,
		grants:   decisionapi.NewGrants(),
		switches: new(switches.Switches),
		recent:   new(recent.Decisions),
		metrics:  telemetry.New(s.registry),
		log:      log,
	}
	if s.api.tracer, err = s.openTracer(); err != nil {
		return s, err
	}
	telemetry.Waiting(s.registry, s.drain.Waiting)
	if s.api.ledger, err = openLedger(s.configuration.get(), c.LedgerSize, s.registry, log); err != nil {
		return s, err
	}
	s.onClose(func() { s.api.ledger.Close() })

	events, closeEvents, err := openEventLog(c.EventLog, log)
	if err != nil {
		return s, err
	}
	s.onClose(func() { closeEvents() })
	telemetry.EventLog(s.registry, func() bool { return events != nil && events.Err() != nil })
	telemetry.Switches(s.registry, s.api.switches.Killed, s.api.switches.Drained)
	tokens, err := openBudget(s.configuration.get, events, s.registry, log)
	if err != nil {
		return s, err
	}
	s.api.budget = tokens
	s.onClose(func() { tokens.Close() })
	s.api.metrics.Accounts(s.registry, tokens.List)
	s.configuration.onReload(func(*config.Config) (func(), error) { return tokens.Reload, nil })
	s.credentials = credential.New(s.configuration.get(), telemetry.NewCredentials(s.registry), log)
	s.onClose(s.credentials.Close)
	s.configuration.onReload(func(next *config.Config) (func(), error) {
		return func() { s.credentials.Update(next) }, nil
	})
	if s.listeners, err = c.listen(s.configuration.get(), telemetry.NewListeners(s.registry), log); err != nil {
		return s, err
	}
	if err := guardCredentials(s.listeners.dataPlane, s.listeners.asks[dataPlanePlace.name], s.configuration.get()); err != nil {
		s.listeners.close()
		return s, err
	}
	s.configuration.onReload(func(next *config.Config) (func(), error) {
		return func() {}, guardCredentials(s.listeners.dataPlane, s.listeners.asks[dataPlanePlace.name], next)
	})
	s.configuration.onReload(s.listeners.reload, "listeners")
	s.configuration.partly = append(s.configuration.partly, s.listeners.needsRestart)
	return s, s.openConsole()
}

// credential is an upstream's source.
func (s *service) credential(upstream string) extproc.CredentialSource {
	if source := s.credentials.Source(upstream); source != nil {
		return source
	}
	return nil // not a nil *credential.Source
}

// onClose adds what is to be closed once nothing is served any more; the last one added is the first.
func (s *service) onClose(f func()) { s.closers = append(s.closers, f) }

func (s *service) close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
	s.closers = nil
}

// serve serves until ctx ends, then drains. An error is a listener that broke.
func (s *service) serve(ctx context.Context) (err error) {
	dataPlane, api, adminGRPC := s.dataPlaneServer(), s.api.server(s.health), s.api.adminServer(s.health)
	admin := withGRPC(adminGRPC, s.adminPages())
	admin.RegisterOnShutdown(s.console.stop) // its pages would hold the HTTP server
	broken := make(chan error, 3)
	var serving sync.WaitGroup
	defer serving.Wait()
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	serving.Go(func() { s.configuration.watch(watching) })
	serving.Go(func() { broken <- dataPlane.Serve(s.listeners.dataPlane) })
	serving.Go(func() { broken <- admin.Serve(s.listeners.admin) })
	if s.listeners.api != nil {
		serving.Go(func() { broken <- api.Serve(s.listeners.api) })
	}
	s.log.Info("serving", append(s.listeners.addresses(), "config", s.flags.Config)...)

	select {
	case err = <-broken:
	case <-ctx.Done():
		s.awaitDrained()
	}
	// Envoy ends a stream when it has its answer. Its access-log stream never ends by itself.
	stopSoon(dataPlane)
	stopSoon(api)
	adminGRPC.Stop() // its watchers would hold the HTTP server
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if admin.Shutdown(stop) != nil {
		admin.Close()
	}
	s.log.Info("stopped")
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// awaitDrained lets the waits that fit the drain time run on, while Envoy sees the process leave.
func (s *service) awaitDrained() {
	s.log.Info("draining", "drain_time", s.flags.DrainTime)
	s.health.Shutdown()
	s.drain.Begin(s.flags.DrainTime)
	s.drain.AwaitIdle(min(lameDuck, s.flags.DrainTime), s.flags.DrainTime)
}

// stopSoon lets calls that are being answered end; watchers would never.
func stopSoon(s *grpc.Server) {
	late := time.AfterFunc(250*time.Millisecond, s.Stop)
	s.GracefulStop()
	late.Stop()
}
