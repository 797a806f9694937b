package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/internal/accesslog"
	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/decisionapi"
	"github.com/verdictproxy/verdict/internal/extproc"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/recent"
	"github.com/verdictproxy/verdict/internal/switches"
	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/pkg/budget"
)

// ServeCmd serves until its context ends, then drains.
type ServeCmd struct {
	Config     string        `placeholder:"FILE" help:"Configuration (YAML). Without it the defaults hold for every upstream."`
	DataPlane  string        `default:"127.0.0.1:9002" placeholder:"ADDR" help:"Where Envoy calls: HOST:PORT or unix:PATH."`
	Admin      string        `default:"127.0.0.1:9003" placeholder:"ADDR" help:"Where /metrics, /healthz and the gRPC services of the operator are: HOST:PORT or unix:PATH."`
	API        string        `placeholder:"ADDR" help:"Where programs without an Envoy ask (gRPC): HOST:PORT or unix:PATH. Off by default."`
	Shadow     []string      `placeholder:"UPSTREAM" help:"Look and do not act: decide on this upstream's answers, count, log and enter into the ledger, and let Envoy's traffic pass as it is. May be repeated."`
	ShadowAll  bool          `help:"The same for all upstreams."`
	DrainTime  time.Duration `default:"10s" help:"At SIGTERM, how long a running wait may still go on."`
	LedgerSize int           `default:"10000" placeholder:"N" help:"How many uncertain outcomes are kept, each about 1 KiB. When it is full, the first resolved makes room, else the oldest."`
	EventLog   string        `placeholder:"FILE" help:"Append every deposit, grant and return of the retry budget, as NDJSON."`
	Pprof      bool          `help:"Serve Go's profiles at /debug/pprof/ of the admin listener."`
	LogLevel   slog.Level    `default:"info" help:"debug, info, warn or error. debug shows every decision."`
	LogFormat  string        `default:"text" enum:"text,json" help:"text or json."`
}

func (c *ServeCmd) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// lameDuck is how long a draining process goes on answering, so that Envoy's health check (1 s
// interval, 0.5 s timeout) has seen it leave before it is gone.
const lameDuck = 2 * time.Second

// streamWorkers is how many streams find a goroutine whose stack has grown already; to grow a new one
// costs a tenth of a decision. Further ones, such as thousands that wait, get goroutines of their own.
const streamWorkers = 32

// Run serves. An error is a configuration that is not valid, an address that cannot be had, or a
// listener that broke.
func (c *ServeCmd) Run(ctx context.Context, out streams) error {
	log := c.logger(out.err)
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := telemetry.New(registry)

	events, closeEvents, err := openEventLog(c.EventLog, log)
	if err != nil {
		return err
	}
	defer closeEvents()
	tokens, err := openBudget(cfg, events, registry, log)
	if err != nil {
		return err
	}
	defer tokens.Close()

	dataPlane, err := listen(c.DataPlane, log)
	if err != nil {
		return err
	}
	admin, err := listen(c.Admin, log)
	if err != nil {
		dataPlane.Close()
		return err
	}
	apiListener, err := listenAPI(c.API, log)
	if err != nil {
		dataPlane.Close()
		admin.Close()
		return err
	}

	drain := extproc.NewDrain()
	telemetry.Waiting(registry, drain.Waiting)
	healthy := health.NewServer()
	server := grpc.NewServer(
		grpc.StreamInterceptor(recoverPanics(log)),
		// Envoy's connection_keepalive may ping as often as its operator likes. The default would close
		// the connection, and every wait on it, after the third ping within five minutes.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Millisecond, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.WaitForHandlers(true), // a token goes back before the budget closes
	)
	answers := &api{
		config:   func() *config.Config { return cfg },
		budget:   tokens,
		grants:   decisionapi.NewGrants(),
		switches: new(switches.Switches),
		ledger:   ledger.New(c.LedgerSize, nil),
		recent:   new(recent.Decisions),
		metrics:  metrics,
		log:      log,
	}
	extprocv3.RegisterExternalProcessorServer(server, &extproc.Server{
		Config:  func() *config.Config { return cfg },
		Budget:  tokens,
		Drain:   drain,
		Runtime: answers.switches.Runtime,
		Shadow:  c.shadows,
		Ledger:  answers.ledger,
		Recent:  answers.recent,
		Metrics: metrics,
		Log:     log,
	})
	alsv3.RegisterAccessLogServiceServer(server, &accesslog.Server{
		Config:  answers.config,
		Budget:  tokens,
		Ledger:  answers.ledger,
		Metrics: metrics,
		Log:     log,
	})
	telemetry.Cases(registry, answers.ledger.Count)
	healthv1.RegisterHealthServer(server, healthy)
	reflection.Register(server)

	apiServer, adminGRPC := answers.server(healthy), answers.adminServer(healthy)
	adminServer := withGRPC(adminGRPC, operatorHandler(adminHandler(registry), drain.State, c.Pprof))
	broken := make(chan error, 3)
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() { broken <- server.Serve(dataPlane) })
	serving.Go(func() { broken <- adminServer.Serve(admin) })
	if apiListener != nil {
		serving.Go(func() { broken <- apiServer.Serve(apiListener) })
	}
	log.Info("serving", "data_plane", dataPlane.Addr().String(), "admin", admin.Addr().String(), "config", c.Config)

	select {
	case err = <-broken:
	case <-ctx.Done():
		log.Info("draining", "drain_time", c.DrainTime)
		healthy.Shutdown()
		drain.Begin(c.DrainTime)
		drain.AwaitIdle(min(lameDuck, c.DrainTime), c.DrainTime)
	}
	// Envoy ends a stream when it has its answer. Its access-log stream never ends by itself.
	stopSoon(server)
	stopSoon(apiServer)
	adminGRPC.Stop() // its watchers would hold the HTTP server
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if adminServer.Shutdown(stop) != nil {
		adminServer.Close()
	}
	log.Info("stopped")
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func adminHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// listen opens HOST:PORT or unix:PATH. A socket file that nobody listens on is removed first.
func listen(address string, log *slog.Logger) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			conn, err := net.Dial("unix", path)
			if err == nil {
				conn.Close()
				return nil, fmt.Errorf("listen %s: another process listens there", address)
			}
			os.Remove(path)
		}
		return net.Listen("unix", path)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
		log.Warn("a plaintext listener is reachable from other machines: whoever reaches it can fund and spend retry budgets", "address", address)
	}
	return l, nil
}

func openEventLog(path string, log *slog.Logger) (*budget.EventLog, func() error, error) {
	if path == "" {
		return nil, func() error { return nil }, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	process := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	return budget.NewEventLog(f, process, func(err error) {
		log.Error("the budget's event log cannot be written: no retry is granted until a restart", "file", path, "error", err)
	}), f.Close, nil
}

// recoverPanics is a net under the whole data plane: a stream that fails lets Envoy pass the answer
// on, a process that dies takes every waiting judge with it.
func recoverPanics(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("panic", "method", info.FullMethod, "panic", p, "stack", string(debug.Stack()))
				err = status.Error(codes.Internal, "internal error")
			}
		}()
		return handle(srv, stream)
	}
}
