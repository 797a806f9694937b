package integration

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/verdictproxy/verdict/test/stack"
)

// What Verdict does not do: a judge that waits as soon as it sees the headers holds the upstream's slot
// as long as the body has not arrived, and others are refused.
func TestWaitOnHeadersHoldsTheSlot(t *testing.T) {
	t.Parallel()
	naive := startNaiveJudge(t)
	clusters := map[string]string{"empty": "429 body=0, ok", "large": "429 body=8MB, ok", "large-h2": "429 body=8MB, ok", "pausing": "slow-body:429 hold=30s, ok"}
	var edits []stack.Edit
	for name := range clusters {
		edits = append(edits, oneSlot(name, map[bool]string{true: "h2", false: "h1"}[strings.HasSuffix(name, "h2")]))
	}
	s := start(t, stack.Options{Patches: []stack.Patch{stack.NewPatch("clusters with one slot", edits...),
		stack.NewPatch("a naive judge", stack.Remove(stack.Cluster("verdict")+"/health_checks"), stack.Set(stack.Cluster("verdict")+"/load_assignment",
			fmt.Sprintf("{cluster_name: verdict, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]}", naive.port)))}})
	for name, fault := range clusters {
		t.Run(name, func(t *testing.T) {
			r := stack.Request{Method: "POST", Host: name + ".example", Fault: fault, Body: "pay", ID: s.NewID()}
			leave := leaveByContext(s.Try, r)
			defer leave()
			<-naive.waiting
			other, _ := s.Try(t.Context(), stack.Request{Host: name + ".example", Fault: "ok", Timeout: 1500 * time.Millisecond})
			if held := other.Status != 200; held != (name != "empty") {
				t.Errorf("the other request: status %d", other.Status)
			}
		})
	}
}

// naiveJudge is an ext_proc server that holds the headers of every 429 until its client leaves.
type naiveJudge struct {
	extprocv3.UnimplementedExternalProcessorServer
	port    int
	waiting chan struct{}
}

func startNaiveJudge(t *testing.T) *naiveJudge {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &naiveJudge{port: listener.Addr().(*net.TCPAddr).Port, waiting: make(chan struct{}, 10)}
	server := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(server, n)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *naiveJudge) Process(stream grpc.BidiStreamingServer[extprocv3.ProcessingRequest, extprocv3.ProcessingResponse]) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	for {
		req, err := stream.Recv()
		if err != nil {
			return nil
		}
		if md.Get("x-verdict-role")[0] == "judge" && statusOf(req) == "429" {
			if err := stream.Send(&extprocv3.ProcessingResponse{OverrideMessageTimeout: durationpb.New(11 * time.Second)}); err != nil {
				return err
			}
			n.waiting <- struct{}{}
			<-stream.Context().Done()
			return nil
		}
		if err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}}}); err != nil {
			return err
		}
	}
}

func statusOf(req *extprocv3.ProcessingRequest) string {
	for _, h := range req.GetResponseHeaders().GetHeaders().GetHeaders() {
		if h.GetKey() == ":status" {
			return string(h.GetRawValue())
		}
	}
	return ""
}
