package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	grpcmd "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/test/stack"
)

// StreamingInputCall adds up the sizes of what the client sends. A message "stop" ends it at once.
func (a *grpcApplication) StreamingInputCall(stream grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	sum := 0
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		if string(r.GetPayload().GetBody()) == "stop" {
			return status.Error(codes.ResourceExhausted, "enough")
		}
		sum += len(r.GetPayload().GetBody())
	}
}

// StreamingOutputCall answers with messages of the sizes that it is asked for.
func (a *grpcApplication) StreamingOutputCall(r *testpb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	for _, p := range r.GetResponseParameters() {
		select {
		case <-time.After(time.Duration(p.GetIntervalUs()) * time.Microsecond):
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: payload(int(p.GetSize()))}); err != nil {
			return err
		}
	}
	return statusError(r.GetResponseStatus())
}

// Long messages, streams of each kind, a client that leaves, a deadline, and a server that ends a stream which
// its client still sends: what the application says arrives.
func TestPassthroughGRPCStreams(t *testing.T) {
	t.Parallel()
	app := startGRPCApplication(t)
	s := start(t, stack.Options{Patches: []stack.Patch{app.route()}})
	client := grpcClient(t, s, "grpc.example")

	t.Run("long messages", func(t *testing.T) {
		const size = 3 << 20
		r, err := client.UnaryCall(t.Context(), &testpb.SimpleRequest{Payload: payload(size)})
		if err != nil || len(r.GetPayload().GetBody()) != size {
			t.Errorf("%d bytes, %v", len(r.GetPayload().GetBody()), err)
		}
	})
	t.Run("a stream of the client's", func(t *testing.T) {
		stream, err := client.StreamingInputCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := stream.Send(&testpb.StreamingInputCallRequest{Payload: payload(50_000)}); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := stream.CloseAndRecv(); err != nil || r.GetAggregatedPayloadSize() != 20*50_000 {
			t.Errorf("%v, %v", r, err)
		}
	})
	for _, end := range []codes.Code{codes.OK, codes.DataLoss} {
		t.Run("a stream of the server's that ends with "+end.String(), func(t *testing.T) {
			r := &testpb.StreamingOutputCallRequest{ResponseStatus: &testpb.EchoStatus{Code: int32(end), Message: "\tsaid so: ☺\n"}}
			for range 20 {
				r.ResponseParameters = append(r.ResponseParameters, &testpb.ResponseParameters{Size: 50_000})
			}
			stream, err := client.StreamingOutputCall(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for ; err == nil; n++ {
				_, err = stream.Recv()
			}
			if n != 21 || end == codes.OK && !errors.Is(err, io.EOF) ||
				end != codes.OK && fmt.Sprint(err) != fmt.Sprint(status.Error(end, "\tsaid so: ☺\n")) {
				t.Errorf("%d messages, %v", n-1, err)
			}
		})
	}
	t.Run("a client that leaves", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := client.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&testpb.StreamingOutputCallRequest{Payload: payload(10)}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("%v", err)
		}
		s.WaitStat("cluster.grpc.upstream_rq_tx_reset", 1) // the server is told
	})
	wantNobodyAsked(t, s)

	t.Run("a deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		stream, err := client.StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{
			{IntervalUs: int32(time.Minute.Microseconds())}}})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v", err)
		}
	})
	t.Run("a server that has enough", func(t *testing.T) {
		for range 20 {
			wantEnough(t, client)
		}
	})
	if n := s.ClusterStat("attempts", "upstream_rq_retry"); n != 0 {
		t.Errorf("%d retries", n)
	}
}

// wantEnough sends until the server ends the stream, and checks that its status arrives without a label.
func wantEnough(t *testing.T, client testpb.TestServiceClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := client.StreamingInputCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: []byte("stop")}})
	for err == nil {
		err = stream.Send(&testpb.StreamingInputCallRequest{Payload: payload(50_000)})
	}
	_, err = stream.CloseAndRecv()
	if fmt.Sprint(err) != fmt.Sprint(status.Error(codes.ResourceExhausted, "enough")) {
		t.Errorf("%v", err)
	}
	header, _ := stream.Header()
	for name := range grpcmd.Join(header, stream.Trailer()) {
		if strings.HasPrefix(name, "x-retry-") || strings.HasPrefix(name, "x-verdict-") {
			t.Errorf("%s on an application's answer", name)
		}
	}
}

// What HTTP/1.1 between the hops gives up: trailers behind a body whose length is announced. gRPC announces
// none.
func TestPassthroughTrailersBehindAnAnnouncedLength(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("trailer", "x-own")
		if r.URL.Path == "/announced" {
			w.Header().Set("content-length", "4")
		}
		_, _ = io.WriteString(w, "body")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("x-own", "trailer")
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	app := &grpcApplication{addr: listener.Addr().String()}
	for _, test := range []struct {
		path, want string
		patches    []stack.Patch
	}{
		{"/open", "trailer", []stack.Patch{app.route()}},
		{"/announced", "", []stack.Patch{app.route()}},
		{"/announced", "trailer", []stack.Patch{app.route(), http2Hops}},
	} {
		s := start(t, stack.Options{Patches: test.patches})
		if a := s.DoH2(stack.Request{Host: "grpc.example", Target: test.path}); a.Body != "body" || a.Trailer.Get("x-own") != test.want {
			t.Errorf("%s, %d patches: body %q, trailer %v", test.path, len(test.patches), a.Body, a.Trailer)
		}
	}
}
