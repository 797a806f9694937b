package console

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/test/stack"
)

const declared = `
upstreams:
- clusters: [app]
  policy: {backoff: {base: 0.001s, max: 0.002s}}
  operations: [{name: charge, pattern: "POST /charge", idempotency: idempotent_with_key}]
`

// lab is Verdict behind Envoy, and clients of its gRPC API, by which what the page has done is seen.
type lab struct {
	*stack.Stack
	url       string
	decisions retryv1.DecisionServiceClient
	budgets   retryv1.BudgetServiceClient
	ledger    retryv1.LedgerServiceClient
	admin     retryv1.AdminServiceClient
}

func newLab(t *testing.T, args ...string) *lab {
	t.Helper()
	s := stack.Start(t, stack.Options{Extproc: extproc, Config: declared, ExtprocArgs: args, Patches: []stack.Patch{stack.LabClusters()}})
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(s.ServiceAdminURL(0), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &lab{
		Stack: s, url: s.ServiceAdminURL(0) + "/console/",
		decisions: retryv1.NewDecisionServiceClient(conn), budgets: retryv1.NewBudgetServiceClient(conn),
		ledger: retryv1.NewLedgerServiceClient(conn), admin: retryv1.NewAdminServiceClient(conn),
	}
}

// traffic is what users do, until the returned function ends it.
func (l *lab) traffic(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var going sync.WaitGroup
	stop = sync.OnceFunc(func() { cancel(); going.Wait() })
	t.Cleanup(stop)
	requests := []stack.Request{
		{Target: "/orders"}, {Target: "/orders"}, {Target: "/orders/7"}, {Target: "/orders"}, {Method: "POST", Target: "/orders", Body: "o"},
		{Target: "/orders", Fault: "status:503, ok"}, {Target: "/orders", Fault: "reset, ok"}, {Target: "/missing", Fault: "status:404"},
		{Method: "POST", Target: "/orders", Fault: "429, ok", Body: "o"}, {Host: "closed.example", Target: "/"}, {Host: "short.example", Target: "/stock"},
	}
	going.Go(func() {
		for ctx.Err() == nil {
			l.Try(ctx, requests[rand.IntN(len(requests))]) // whatever comes of it
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(rand.IntN(60)) * time.Millisecond):
			}
		}
	})
	return stop
}

// charge sends a request whose outcome is uncertain, and returns its case.
func (l *lab) charge(t *testing.T, order, fault string) string {
	t.Helper()
	a := l.Do(stack.Request{Method: "POST", Target: "/charge?order=" + order, Fault: fault, Body: "pay"})
	id := a.Report().AmbiguityID
	if id == "" {
		t.Fatalf("no case: %+v", a.Report())
	}
	return id
}

// retried reports whether a request that only needs another attempt gets one, and the reason where not.
func (l *lab) retried() (bool, string) {
	a := l.Do(stack.Request{Method: "POST", Fault: "429, ok", Body: "pay"})
	return a.Status == 200, a.Report().Reason
}

func (l *lab) wantDrained(t *testing.T, killed bool, upstreams ...string) {
	t.Helper()
	got, err := l.admin.GetDrained(t.Context(), new(retryv1.GetDrainedRequest))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.GetUpstreams(), upstreams) || (got.GetKillSwitch() == retryv1.KillSwitch_KILL_SWITCH_ON) != killed {
		t.Errorf("drained: %v, want %q, killed %v", got, upstreams, killed)
	}
}

func (l *lab) get(t *testing.T, caseID string) *retryv1.Case {
	t.Helper()
	got, err := l.ledger.Get(t.Context(), &retryv1.LedgerServiceGetRequest{CaseId: caseID})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetCase()
}

// eventually polls for what is to happen.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !happened(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
