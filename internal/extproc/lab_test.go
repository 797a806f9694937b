package extproc

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lab is the service as a whole, with the in-memory budget and its event log, behind a real gRPC
// connection where one is asked for. It lives in a synctest bubble: waits cost no time and are exact.
type lab struct {
	*Server
	conn     *grpc.ClientConn // see connect
	events   buffer
	log      buffer
	registry *prometheus.Registry
	source   *scriptedSource
}

// inLab runs a test in a bubble of its own, with a lab whose configuration is the given YAML. Waits are
// placed in the middle of their jitter.
func inLab(t *testing.T, yaml string, test func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newLab(t, yaml))
	})
}

func newLab(t testing.TB, yaml string) *lab {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{registry: prometheus.NewRegistry()}
	tokens := memory.New(func(upstream string) budget.Settings { return cfg.Upstream(upstream).Budget() },
		memory.Options{Log: budget.NewEventLog(&l.events, "test", nil)})
	l.Server = &Server{
		Config:  func() *config.Config { return cfg },
		Budget:  tokens,
		Drain:   NewDrain(),
		Metrics: telemetry.New(l.registry),
		Log:     slog.New(slog.NewTextHandler(&l.log, nil)),
		Random:  func() float64 { return 0.5 },
	}
	t.Cleanup(func() { tokens.Close() })
	return l
}

// connect serves the lab over gRPC, at the first call.
func (l *lab) connect(t testing.TB) *grpc.ClientConn {
	t.Helper()
	if l.conn != nil {
		return l.conn
	}
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	extprocv3.RegisterExternalProcessorServer(server, l.Server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	l.conn = conn
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// wantEvents compares the budget's event log with "KIND ACCOUNT" entries: nothing is granted twice,
// returned twice or lost.
func (l *lab) wantEvents(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(l.events.String()) {
		var e budget.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Kind)+" "+e.Account)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("the budget's events are %q, want %q", got, want)
	}
}

// counts returns the metric's value by its labels' values joined by a comma, "" for one without.
func (l *lab) counts(t *testing.T, metric string) map[string]float64 {
	t.Helper()
	families, err := l.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			found[strings.Join(labels, ",")] = m.GetCounter().GetValue()
		}
	}
	return found
}
