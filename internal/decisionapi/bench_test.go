package decisionapi

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
)

// inFlight is how many calls the benchmark's one client has open at a time.
const inFlight = 64

// afterReset is the least that a client says of a GET whose connection broke.
func afterReset() *retryv1.DecideRequest {
	return &retryv1.DecideRequest{Facts: &retryv1.Facts{
		Upstream: "payments", Call: &retryv1.Call{Method: "GET", Path: "/v1/accounts/4711/balance"},
		Body: &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_NONE}, Attempt: 1,
		Ending:   stage(retryv1.Stage_STAGE_CONNECTION_RESET),
		Deadline: &retryv1.Facts_Remaining{Remaining: durationpb.New(5 * time.Second)},
	}}
}

// after503 is all that it says of a 503.
func after503() *retryv1.DecideRequest {
	return &retryv1.DecideRequest{
		RequestId: "3f2b8c1e-7d5a-4c0e-9b1f-2a6d8e4c7f10",
		Facts: &retryv1.Facts{
			Upstream: "payments", Call: &retryv1.Call{Method: "GET", Path: "/v1/accounts/4711/balance"},
			Body: &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_NONE}, Attempt: 1,
			Ending: &retryv1.Ending{Ending: &retryv1.Ending_Http{Http: &retryv1.HttpResponse{
				Status: 503, Headers: []*retryv1.Header{{Name: "retry-after", Value: "1"}},
			}}},
			Delivery: retryv1.Delivery_DELIVERY_NOT_DELIVERED,
			Deadline: &retryv1.Facts_Remaining{Remaining: durationpb.New(5 * time.Second)},
		},
	}
}

// BenchmarkDecideAgainstEcho asks Decide, and a bare unary echo of messages of the same sizes, in turns
// of 1000 calls over a Unix socket, and reports how many echoes one Decide is worth: at least 0.85 is
// wanted. On a machine that others use too, the ratio of processor times says more than that of times. go test ./internal/decisionapi -run '^$' -bench AgainstEcho -benchtime 60000x -count 5
func BenchmarkDecideAgainstEcho(b *testing.B) {
	b.Run("reset", func(b *testing.B) { againstEcho(b, afterReset()) })
	b.Run("503", func(b *testing.B) { againstEcho(b, after503()) })
}

func againstEcho(b *testing.B, request *retryv1.DecideRequest) {
	tokens := memory.New(func(string) budget.Settings { return budget.Unlimited }, memory.Options{})
	defer tokens.Close()
	l := newLab(b)
	l.Budget = tokens
	response, err := l.Decide(b.Context(), request)
	if err != nil || response.GetGrant() == "" {
		b.Fatalf("%v, %v", response, err)
	}

	conn := serveUnix(b, func(s *grpc.Server) {
		Register(s, retryv1.DecisionService_ServiceDesc, l.Decisions)
		registerEcho(s, len(ofSize(b, proto.Size(response)).GetValue()))
	})
	client := retryv1.NewDecisionServiceClient(conn)
	decide := func(ctx context.Context) error {
		_, err := client.Decide(ctx, request)
		return err
	}
	payload := ofSize(b, proto.Size(request))
	echo := func(ctx context.Context) error {
		return conn.Invoke(ctx, "/retry.v1.EchoingService/Echo", payload, new(wrapperspb.BytesValue), grpc.StaticMethod())
	}

	const turn = 1000
	rate(b, decide, turn)
	rate(b, echo, turn)
	b.ResetTimer()
	var decided, echoed, decidedCPU, echoedCPU time.Duration
	calls := 0
	for calls < b.N {
		n := min(turn, b.N-calls)
		begin := processTime(b)
		decided += rate(b, decide, n)
		middle := processTime(b)
		echoed += rate(b, echo, n)
		decidedCPU += middle - begin
		echoedCPU += processTime(b) - middle
		calls += n
	}
	b.ReportMetric(float64(calls)/decided.Seconds(), "decide/s")
	b.ReportMetric(float64(calls)/echoed.Seconds(), "echo/s")
	b.ReportMetric(echoed.Seconds()/decided.Seconds(), "decide/echo")
	b.ReportMetric(echoedCPU.Seconds()/decidedCPU.Seconds(), "cpu-decide/echo")
}

// BenchmarkDecideHandler is Decide without a connection: what the handler itself costs.
func BenchmarkDecideHandler(b *testing.B) {
	l := newLab(b)
	tokens := memory.New(func(string) budget.Settings { return budget.Unlimited }, memory.Options{})
	defer tokens.Close()
	l.Budget = tokens
	request := after503()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Decide(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkValidate is the part that checks the message.
func BenchmarkValidate(b *testing.B) {
	request := after503()
	b.ReportAllocs()
	for b.Loop() {
		if err := validate(request); err != nil {
			b.Fatal(err)
		}
	}
}

// rate makes n calls, inFlight at a time, and returns how long they took.
func rate(b *testing.B, call func(context.Context) error, n int) time.Duration {
	var next atomic.Int64
	var workers sync.WaitGroup
	begin := time.Now()
	for range inFlight {
		workers.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := call(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	return time.Since(begin)
}

// processTime is the processor time that the process has used.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ofSize returns a message of that size on the wire.
func ofSize(b *testing.B, n int) *wrapperspb.BytesValue {
	for payload := max(n-8, 0); ; payload++ {
		m := wrapperspb.Bytes(make([]byte, payload))
		if size := proto.Size(m); size == n {
			return m
		} else if size > n {
			b.Fatalf("no message of %d bytes", n)
		}
	}
}

// registerEcho serves what protoc-gen-go-grpc would make of the least unary method that there can be: it
// answers with the first bytes of its request.
func registerEcho(s *grpc.Server, size int) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "retry.v1.EchoingService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Echo",
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				in := new(wrapperspb.BytesValue)
				if err := decode(in); err != nil {
					return nil, err
				}
				return &wrapperspb.BytesValue{Value: in.GetValue()[:min(size, len(in.GetValue()))]}, nil
			},
		}},
	}, struct{}{})
}

func serveUnix(b *testing.B, register func(*grpc.Server)) *grpc.ClientConn {
	path := filepath.Join(b.TempDir(), "api.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(Codec(), Workers())
	register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	b.Cleanup(func() { server.Stop(); <-done })
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}
