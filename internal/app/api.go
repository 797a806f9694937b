package app

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/decisionapi"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/recent"
	"github.com/verdictproxy/verdict/internal/switches"
	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/internal/tracing"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// maxAPIMessage bounds a request of the API; the largest that the schema permits is a batch of deposits.
const maxAPIMessage = 1 << 20

// api is what the gRPC API answers with, on whatever listener it is.
type api struct {
	config   func() *config.Config
	budget   budget.Budget
	grants   *decisionapi.Grants
	switches *switches.Switches
	ledger   ledger.Ledger
	recent   *recent.Decisions
	metrics  *telemetry.Metrics
	tracer   *tracing.Tracer
	log      *slog.Logger
}

// server makes a gRPC server of the decision API.
func (a *api) server(healthy *health.Server) *grpc.Server {
	s := grpc.NewServer(append(append(interceptors(a.log), a.traced()...),
		decisionapi.Codec(),
		decisionapi.Workers(),
		grpc.MaxRecvMsgSize(maxAPIMessage),
		grpc.WaitForHandlers(true), // what they decide is paid for and entered before budget and ledger close
	)...)
	decisionapi.Register(s, retryv1.DecisionService_ServiceDesc, a.decisions())
	decisionapi.Register(s, retryv1.BudgetService_ServiceDesc, &decisionapi.Budgets{Budget: a.budget, Grants: a.grants})
	decisionapi.Register(s, retryv1.LedgerService_ServiceDesc, &decisionapi.Cases{Ledger: a.ledger})
	healthv1.RegisterHealthServer(s, healthy)
	reflection.Register(s)
	return s
}

// adminServer makes one of everything: the admin service is on the admin listener only.
func (a *api) adminServer(healthy *health.Server) *grpc.Server {
	s := a.server(healthy)
	decisionapi.Register(s, retryv1.AdminService_ServiceDesc, &decisionapi.Admin{Switches: a.switches, Recent: a.recent, Log: a.log})
	return s
}

func (a *api) decisions() *decisionapi.Decisions {
	return &decisionapi.Decisions{
		Declared: func() decisionapi.Declarations { return declarations{a.config()} },
		Budget:   a.budget,
		Grants:   a.grants,
		Runtime:  a.switches.Runtime,
		Observe:  a.observe,
	}
}

// observe counts a decision and logs it, as the judge does.
func (a *api) observe(ctx context.Context, d decisionapi.Decided) {
	a.describe(ctx, d)
	a.metrics.Decision(d.Upstream, d.Decision)
	entry := ledger.Entry{
		CaseID: d.CaseID, RequestID: d.RequestID, Upstream: d.Upstream, Operation: d.Operation,
		Method: d.Method, Path: d.Path, Key: d.Key, Attempts: d.Attempt, Cause: d.Cause, Decision: d.Decision,
		Facts: d.Facts, Rules: d.Rules,
	}
	a.recent.Add(entry)
	level, message := slog.LevelDebug, "decided"
	if d.CaseID != "" {
		level, message = slog.LevelWarn, "uncertain outcome"
		a.ledger.Enter(entry)
	}
	a.log.LogAttrs(context.Background(), level, message,
		slog.String("caller", "api"),
		slog.String("case", d.CaseID),
		slog.String("request_id", d.RequestID),
		slog.String("verdict", d.Decision.Verdict.String()),
		slog.String("reason", d.Decision.Reason.String()),
		slog.Int("rule", d.Decision.Rule),
		slog.String("evidence", d.Decision.Evidence.String()),
		slog.String("execution", d.Decision.Execution.String()),
		slog.Duration("wait", d.Decision.Wait),
		slog.Int("attempt", d.Attempt),
		slog.String("upstream", d.Upstream),
		slog.String("operation", d.Operation),
		slog.String("method", d.Method),
		slog.String("path", d.Path),
		slog.String("cause", d.Cause))
}

// declarations are what a configuration declares, for API callers.
type declarations struct{ *config.Config }

func (d declarations) Policy(upstream string) decision.Policy { return d.Upstream(upstream).Policy() }

// Operation gives the strictest class over all upstreams where the caller names none.
func (d declarations) Operation(upstream, method, path, routeOperation string) (string, decision.Idempotency) {
	name, class := d.Upstream(upstream).Operation(method, path, routeOperation)
	if upstream == "" && method != "" {
		class = min(class, d.Config.Strictest(method, path))
	}
	return name, class
}

func (d declarations) Strictest(upstream string) decision.Idempotency {
	return d.StrictestDeclared(upstream)
}

func (d declarations) AnyBefore(now time.Time, f decision.Facts, looser func(decisionapi.Declarations) bool) bool {
	return d.Config.AnyBefore(now, f, func(before *config.Config) bool { return looser(declarations{before}) })
}

// withGRPC serves a gRPC server and plain HTTP on one listener, apart by their content type.
func withGRPC(server *grpc.Server, plain http.Handler) *http.Server {
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			server.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Handler: both, Protocols: protocols, ReadHeaderTimeout: 5 * time.Second}
}
