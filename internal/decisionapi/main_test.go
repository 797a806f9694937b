package decisionapi

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	ledgermemory "github.com/verdictproxy/verdict/internal/ledger/memory"
	"github.com/verdictproxy/verdict/internal/recent"
	"github.com/verdictproxy/verdict/internal/switches"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
	"github.com/verdictproxy/verdict/pkg/decision"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// declared is what a test's operator declared.
type declared struct {
	policy decision.Policy
	// operations are by method; an undeclared one has the method's class.
	operations map[string]decision.Idempotency
	strictest  decision.Idempotency
	before     []*declared
}

func (d *declared) Policy(string) decision.Policy { return d.policy }

func (d *declared) Operation(_, method, _, route string) (string, decision.Idempotency) {
	if class, ok := d.operations[method+route]; ok {
		return method + route, class
	}
	return "", decision.MethodClass(method)
}

func (d *declared) Strictest(string) decision.Idempotency { return d.strictest }

func (d *declared) AnyBefore(_ time.Time, _ decision.Facts, looser func(Declarations) bool) bool {
	return slices.ContainsFunc(d.before, func(b *declared) bool { return looser(b) })
}

// budgets: the upstream "empty" never pays, "one" pays for one retry, any other for many.
func budgets(upstream string) budget.Settings {
	s := budget.DefaultSettings()
	switch upstream {
	case "empty":
		return budget.Never
	case "one":
		s.Reserve = 1
	}
	return s
}

// lab is a server with everything that a test may want to change, and clients of it.
type lab struct {
	*declared
	*Decisions
	ledger.Ledger
	conn     *grpc.ClientConn
	decision retryv1.DecisionServiceClient
	budget   retryv1.BudgetServiceClient
	cases    retryv1.LedgerServiceClient
}

func newLab(t testing.TB) *lab {
	t.Helper()
	tokens := memory.New(budgets, memory.Options{})
	t.Cleanup(func() { _ = tokens.Close() })
	l := &lab{declared: &declared{policy: decision.DefaultPolicy(), strictest: decision.Safe}}
	grants := NewGrants()
	l.Decisions = &Decisions{
		Declared: func() Declarations { return l.declared },
		Budget:   tokens,
		Grants:   grants,
	}
	server := grpc.NewServer(Codec())
	Register(server, retryv1.DecisionService_ServiceDesc, l.Decisions)
	Register(server, retryv1.BudgetService_ServiceDesc, &Budgets{Budget: tokens, Grants: grants})
	l.Ledger = ledgermemory.New(3, nil)
	Register(server, retryv1.LedgerService_ServiceDesc, &Cases{Ledger: l.Ledger})
	Register(server, retryv1.AdminService_ServiceDesc, &Admin{
		Switches: new(switches.Switches), Recent: new(recent.Decisions), Log: slog.New(slog.DiscardHandler),
	})
	listener := bufconn.Listen(1 << 20)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	conn, err := grpc.NewClient("passthrough:lab", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	l.conn = conn
	l.decision, l.budget = retryv1.NewDecisionServiceClient(conn), retryv1.NewBudgetServiceClient(conn)
	l.cases = retryv1.NewLedgerServiceClient(conn)
	return l
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
