package accesslog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lab is the access-log service behind a real gRPC connection, with the in-memory budget.
type lab struct {
	client   alsv3.AccessLogServiceClient
	budget   budget.Budget
	registry *prometheus.Registry
	log      bytes.Buffer
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{registry: prometheus.NewRegistry(), budget: memory.New(nil, memory.Options{})}
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	alsv3.RegisterAccessLogServiceServer(server, &Server{
		Budget: l.budget, Metrics: telemetry.New(l.registry), Log: slog.New(slog.NewTextHandler(&l.log, nil)),
	})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	l.client = alsv3.NewAccessLogServiceClient(conn)
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		l.budget.Close()
	})
	return l
}

// attempt is an entry as Envoy 1.40 was seen to write it.
func attempt(n int, cluster, details string) *accesslogv3.HTTPAccessLogEntry {
	head, err := anypb.New(wrapperspb.String(fmt.Sprintf("id=i1 attempt=%d remaining=10000", n)))
	if err != nil {
		panic(err) // a string always encodes
	}
	common := &accesslogv3.AccessLogCommon{
		AccessLogType:      accesslogv3.AccessLogType_DownstreamEnd,
		UpstreamCluster:    cluster,
		FilterStateObjects: map[string]*anypb.Any{"verdict.request": head},
	}
	if cluster != "" {
		common.UpstreamRemoteAddress = &corev3.Address{}
	}
	return &accesslogv3.HTTPAccessLogEntry{
		CommonProperties: common,
		Request:          &accesslogv3.HTTPRequestProperties{RequestMethod: corev3.RequestMethod_POST, Path: "/pay"},
		Response:         &accesslogv3.HTTPResponseProperties{ResponseCodeDetails: details},
	}
}

func batch(entries ...*accesslogv3.HTTPAccessLogEntry) *alsv3.StreamAccessLogsMessage {
	return &alsv3.StreamAccessLogsMessage{LogEntries: &alsv3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &alsv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: entries},
	}}
}

// send sends messages as one stream and waits until the service has taken them.
func (l *lab) send(t *testing.T, messages ...*alsv3.StreamAccessLogsMessage) {
	t.Helper()
	stream, err := l.client.StreamAccessLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	// Envoy never reads an answer, and none is sent: the stream ends without one.
	if _, err := stream.CloseAndRecv(); status.Code(err) != codes.Internal {
		t.Fatalf("the stream ends with %v", err)
	}
}

func (l *lab) wantFirsts(t *testing.T, want map[string]int64) {
	t.Helper()
	got := map[string]int64{}
	for _, s := range l.budget.List() {
		got[s.Upstream] = s.Firsts
	}
	if len(got) != len(want) {
		t.Errorf("first attempts %v, want %v", got, want)
	}
	for upstream, n := range want {
		if got[upstream] != n {
			t.Errorf("%d first attempts of %q, want %d", got[upstream], upstream, n)
		}
	}
}

// TestDeposits: exactly the first attempts that had a host fund the budget, over batches and streams.
func TestDeposits(t *testing.T) {
	l := newLab(t)
	started := attempt(1, "app", "via_upstream")
	started.CommonProperties.AccessLogType = accesslogv3.AccessLogType_DownstreamStart
	l.send(t,
		batch(attempt(1, "app", "via_upstream"), attempt(1, "app", "via_upstream"), attempt(2, "app", "via_upstream"), attempt(1, "other", "via_upstream")),
		batch(),
		batch(attempt(1, "app", "upstream_reset_before_response_started{remote_connection_failure}"), attempt(1, "", "no_healthy_upstream"), started),
	)
	l.send(t, batch(attempt(1, "app", "http2.remote_reset"), attempt(3, "app", "via_upstream")))
	l.wantFirsts(t, map[string]int64{"app": 4, "other": 1})

	want := `
# HELP verdict_first_attempts_total First attempts that had an upstream host: each funds the retry budget.
# TYPE verdict_first_attempts_total counter
verdict_first_attempts_total{upstream="app"} 4
verdict_first_attempts_total{upstream="other"} 1
`
	if err := testutil.GatherAndCompare(l.registry, strings.NewReader(want), "verdict_first_attempts_total"); err != nil {
		t.Error(err)
	}
	if l.log.Len() != 0 {
		t.Errorf("nothing happened, but the log says %s", l.log.String())
	}
}

// TestDepositsPay: what was deposited can be withdrawn, and no more: 200 milli-tokens a first attempt.
func TestDepositsPay(t *testing.T) {
	settings := budget.Settings{Ratio: 200, Reserve: 0, Interval: budget.DefaultSettings().Interval}
	l := &lab{registry: prometheus.NewRegistry(), budget: memory.New(func(string) budget.Settings { return settings }, memory.Options{})}
	defer l.budget.Close()
	s := &Server{Budget: l.budget, Metrics: telemetry.New(l.registry), Log: slog.New(slog.DiscardHandler)}
	s.take(batch(slices.Repeat([]*accesslogv3.HTTPAccessLogEntry{attempt(1, "app", "via_upstream")}, 14)...))
	granted := 0
	for range 5 {
		if _, ok := l.budget.Account("app").TryWithdraw(t.Context()); ok {
			granted++
		}
	}
	if granted != 2 {
		t.Errorf("14 first attempts pay for %d retries, want 2", granted)
	}
}

// TestCutOff: an answer that was cut off is logged and counted, whichever attempt it was.
func TestCutOff(t *testing.T) {
	l := newLab(t)
	l.send(t, batch(attempt(2, "app", "upstream_reset_after_response_started{protocol_error}"), attempt(1, "app", "via_upstream")))
	l.wantFirsts(t, map[string]int64{"app": 1})
	if err := testutil.GatherAndCompare(l.registry, strings.NewReader(`
# HELP verdict_cut_off_answers_total Answers that the upstream cut off after their headers: PARTIAL_RESPONSE, which no filter can change.
# TYPE verdict_cut_off_answers_total counter
verdict_cut_off_answers_total{upstream="app"} 1
`), "verdict_cut_off_answers_total"); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"answer cut off", "evidence=PARTIAL_RESPONSE", "upstream=app", "case=i1", "method=POST", "path=/pay", "cause=upstream_reset_after_response_started{protocol_error}"} {
		if !strings.Contains(l.log.String(), word) {
			t.Errorf("the log lacks %s: %s", word, l.log.String())
		}
	}
}

// TestGarbage: what is no entry of ours costs nothing and funds nothing.
func TestGarbage(t *testing.T) {
	l := newLab(t)
	broken := attempt(1, "app", "via_upstream")
	broken.CommonProperties.FilterStateObjects["verdict.request"] = &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.StringValue", Value: []byte{0xff}}
	empty := attempt(1, "app", "via_upstream")
	empty.CommonProperties.FilterStateObjects["verdict.request"].Value = nil
	l.send(t,
		&alsv3.StreamAccessLogsMessage{},
		&alsv3.StreamAccessLogsMessage{Identifier: &alsv3.StreamAccessLogsMessage_Identifier{LogName: "x"}},
		&alsv3.StreamAccessLogsMessage{LogEntries: &alsv3.StreamAccessLogsMessage_TcpLogs{TcpLogs: &alsv3.StreamAccessLogsMessage_TCPAccessLogEntries{LogEntry: []*accesslogv3.TCPAccessLogEntry{{}}}}},
		batch(&accesslogv3.HTTPAccessLogEntry{}, broken, empty, attempt(math.MaxInt, "app", "via_upstream"), attempt(-1, "app", "")),
	)
	l.wantFirsts(t, nil)
}

// TestBytesThatAreNoMessage end the stream, and only it.
func TestBytesThatAreNoMessage(t *testing.T) {
	l := newLab(t)
	s := &Server{Budget: l.budget, Metrics: telemetry.New(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)}
	broken := status.Error(codes.Internal, "cannot unmarshal")
	if err := s.StreamAccessLogs(&brokenStream{err: broken}); err != broken {
		t.Errorf("the stream ends with %v", err)
	}
	for _, normal := range []error{io.EOF, status.Error(codes.Canceled, "")} {
		if err := s.StreamAccessLogs(&brokenStream{err: normal}); err != nil {
			t.Errorf("%v ends the stream with %v", normal, err)
		}
	}
	l.send(t, batch(attempt(1, "app", "via_upstream")))
	l.wantFirsts(t, map[string]int64{"app": 1})
}

type brokenStream struct {
	alsv3.AccessLogService_StreamAccessLogsServer
	err error
}

func (s *brokenStream) Recv() (*alsv3.StreamAccessLogsMessage, error) { return nil, s.err }

// FuzzStream: whatever comes over the wire, deposits are the first attempts that a strict count finds.
func FuzzStream(f *testing.F) {
	for _, m := range []*alsv3.StreamAccessLogsMessage{batch(attempt(1, "app", "via_upstream"), attempt(2, "app", "")), batch(attempt(1, "\u00ff", "upstream_reset_after_response_started{x}"))} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m alsv3.StreamAccessLogsMessage
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		b := memory.New(nil, memory.Options{})
		defer b.Close()
		s := &Server{Budget: b, Metrics: telemetry.New(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)}
		s.take(&m)
		var firsts, ends int64
		for _, account := range b.List() {
			firsts += account.Firsts
		}
		for _, entry := range m.GetHttpLogs().GetLogEntry() {
			if c := entry.GetCommonProperties(); c.GetAccessLogType() == accesslogv3.AccessLogType_DownstreamEnd && c.GetUpstreamCluster() != "" && c.GetUpstreamRemoteAddress() != nil {
				ends++
			}
		}
		if firsts > ends {
			t.Errorf("%d first attempts of %d that had a host", firsts, ends)
		}
	})
}
