package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	grpcmd "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/test/stack"
)

// grpcApplication is a gRPC server of the operator's, as the real library makes it.
type grpcApplication struct {
	testpb.UnimplementedTestServiceServer
	addr string
}

func startGRPCApplication(t *testing.T) *grpcApplication {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	app := &grpcApplication{addr: listener.Addr().String()}
	server := grpc.NewServer()
	testpb.RegisterTestServiceServer(server, app)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return app
}

// route adds the application as the host grpc.example, without an attempt timeout, as streams need it.
func (a *grpcApplication) route() stack.Patch {
	return stack.NewPatch("a gRPC application", stack.AddUpstream("grpc", a.addr, "", "{route: {cluster: grpc, timeout: 0s}}"), speaksHTTP2("grpc"))
}

func statusError(s *testpb.EchoStatus) error {
	return status.Error(codes.Code(s.GetCode()), s.GetMessage())
}

func (a *grpcApplication) UnaryCall(ctx context.Context, r *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	_ = grpc.SetTrailer(ctx, grpcmd.Pairs("x-own", "trailer"))
	return &testpb.SimpleResponse{Payload: r.GetPayload()}, statusError(r.GetResponseStatus())
}

func (a *grpcApplication) FullDuplexCall(stream grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	stream.SetTrailer(grpcmd.Pairs("x-own", "trailer"))
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.GetResponseStatus().GetCode() != 0 {
			return statusError(r.GetResponseStatus())
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: r.GetPayload()}); err != nil {
			return err
		}
	}
}

func grpcClient(t *testing.T, s *stack.Stack, host string) testpb.TestServiceClient {
	conn, err := grpc.NewClient("passthrough:///"+s.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority(host), grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return testpb.NewTestServiceClient(conn)
}

func payload(n int) *testpb.Payload { return &testpb.Payload{Body: []byte(strings.Repeat("x", n))} }

// Calls and streams of gRPC, messages in both directions at their own pace, statuses and trailers pass.
// A status that comes in trailers asks nobody; one that comes instead of an answer is looked at, and
// stays as the application said it.
func TestPassthroughGRPC(t *testing.T) {
	t.Parallel()
	app := startGRPCApplication(t)
	s := start(t, stack.Options{Patches: []stack.Patch{app.route()}})
	client := grpcClient(t, s, "grpc.example")

	t.Run("unary", func(t *testing.T) {
		var trailer grpcmd.MD
		r, err := client.UnaryCall(t.Context(), &testpb.SimpleRequest{Payload: payload(100_000)}, grpc.Trailer(&trailer))
		if err != nil || len(r.GetPayload().GetBody()) != 100_000 {
			t.Errorf("%d bytes, %v", len(r.GetPayload().GetBody()), err)
		}
		wantTrailer(t, trailer)
	})
	for _, end := range []codes.Code{codes.OK, codes.Aborted, codes.Unavailable} {
		t.Run("a stream that ends with "+end.String(), func(t *testing.T) {
			stream, err := client.FullDuplexCall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for size := range 5 { // each message only when the one before has come back
				if err := stream.Send(&testpb.StreamingOutputCallRequest{Payload: payload(size * 1000)}); err != nil {
					t.Fatal(err)
				}
				if r, err := stream.Recv(); err != nil || len(r.GetPayload().GetBody()) != size*1000 {
					t.Fatalf("message %d: %d bytes, %v", size, len(r.GetPayload().GetBody()), err)
				}
			}
			if end == codes.OK {
				err = stream.CloseSend()
			} else {
				err = stream.Send(&testpb.StreamingOutputCallRequest{ResponseStatus: &testpb.EchoStatus{Code: int32(end), Message: "said so"}})
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err = stream.Recv(); end == codes.OK && !errors.Is(err, io.EOF) || end != codes.OK && fmt.Sprint(err) != fmt.Sprint(status.Error(end, "said so")) {
				t.Errorf("the stream ended with %v", err)
			}
			wantTrailer(t, stream.Trailer())
		})
	}
	wantNobodyAsked(t, s)

	for _, code := range []codes.Code{codes.InvalidArgument, codes.Unavailable, codes.Unauthenticated} {
		t.Run("an answer that is only "+code.String(), func(t *testing.T) {
			var header, trailer grpcmd.MD
			_, err := client.UnaryCall(t.Context(), &testpb.SimpleRequest{ResponseStatus: &testpb.EchoStatus{Code: int32(code), Message: "said so"}},
				grpc.Header(&header), grpc.Trailer(&trailer))
			if status.Code(err) != code || status.Convert(err).Message() != "said so" {
				t.Errorf("%v", err)
			}
			wantTrailer(t, trailer)
			for _, md := range []grpcmd.MD{header, trailer} {
				for name := range md {
					if strings.HasPrefix(name, "x-retry-") || strings.HasPrefix(name, "x-verdict-") {
						t.Errorf("%s: %q", name, md[name])
					}
				}
			}
		})
	}
	if n := s.ExtProcStat("attempts", "streams_started"); n == 0 {
		t.Error("an answer that is only a status was not looked at")
	}
	if n := s.ClusterStat("attempts", "upstream_rq_retry"); n != 0 {
		t.Errorf("%d retries", n)
	}
}

func wantTrailer(t *testing.T, trailer grpcmd.MD) {
	t.Helper()
	if got := trailer.Get("x-own"); len(got) != 1 || got[0] != "trailer" {
		t.Errorf("trailer %v", trailer)
	}
}

// wantNobodyAsked: no ext_proc stream was ever started, on either hop.
func wantNobodyAsked(t *testing.T, s *stack.Stack) {
	t.Helper()
	for _, listener := range []string{"outer", "attempts"} {
		if n := s.ExtProcStat(listener, "streams_started"); n != 0 {
			t.Errorf("%s: Verdict was asked %d times", listener, n)
		}
	}
	if n := s.ServiceMetric(0, "verdict_decisions_total"); n != 0 {
		t.Errorf("%v decisions", n)
	}
}

// Without the matchers every healthy answer asks Verdict, and with one that forgets 1xx a WebSocket does.
func TestPassthroughWithoutTheCure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		patch   stack.Patch
		request stack.Request
		status  int
	}{
		{"no matcher", stack.NewPatch("every answer is judged", undelegated("attempts", "judge")), getting("ok"), 200},
		{"no matcher for the finalizer", stack.NewPatch("every answer is finalized", undelegated("outer", "finalizer")), getting("ok"), 200},
		{"1xx forgotten", stack.NewPatch("1xx is failing", stack.Set(stack.FilterConfig("attempts", "judge")+
			"/xds_matcher/matcher_list/matchers/0/predicate/and_matcher/predicate/0/single_predicate/value_match/safe_regex/regex", `"[23].*"`)),
			stack.Request{Header: []string{"connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="}}, 101},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Patches: []stack.Patch{test.patch}})
			if a := s.Do(test.request); a.Status != test.status {
				t.Errorf("status %d", a.Status)
			}
			if s.ExtProcStat("attempts", "streams_started")+s.ExtProcStat("outer", "streams_started") == 0 {
				t.Error("Verdict was not asked: nothing to cure")
			}
		})
	}
}

// undelegated puts a filter into the chain without its matcher.
func undelegated(listener, filter string) stack.Edit {
	return func(c *stack.Config) error {
		config, err := c.Get(stack.DelegatedConfig(listener, filter))
		if err != nil {
			return err
		}
		delegate, err := c.Get(stack.HTTPFilter(listener, filter))
		if err != nil {
			return err
		}
		delegate.(map[string]any)["typed_config"] = config
		return nil
	}
}
