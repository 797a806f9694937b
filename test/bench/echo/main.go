// Command echo is the yardstick of the judge's cost: the smallest ext_proc server that grpc-go allows.
// It reads nothing of a message and adds one fixed header to every answer.
//
// It takes the place of `extproc serve`: of its arguments it knows --data-plane ADDR and --admin ADDR, and
// passes over the others.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	dataPlane, err := net.Listen("tcp", option(args, "--data-plane"))
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", option(args, "--admin"))
	if err != nil {
		return err
	}
	go http.Serve(admin, http.NotFoundHandler()) // who starts it waits until both ports are open
	server := grpc.NewServer()
	extprocv3.RegisterExternalProcessorServer(server, echo{})
	healthv1.RegisterHealthServer(server, health.NewServer())
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(terminated, server.Stop)
	return server.Serve(dataPlane)
}

func option(args []string, name string) string {
	for i, arg := range args[:max(len(args)-1, 0)] {
		if arg == name {
			return args[i+1]
		}
	}
	return "127.0.0.1:0"
}

type echo struct {
	extprocv3.UnimplementedExternalProcessorServer
}

// answer carries the judge's verdict, so that no finalizer is called after it.
var answer = &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
	ResponseHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{
		HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{{
			Header:       &corev3.HeaderValue{Key: "x-retry-verdict", RawValue: []byte("denied")},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}}},
	}},
}}

func (echo) Process(stream grpc.BidiStreamingServer[extprocv3.ProcessingRequest, extprocv3.ProcessingResponse]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return nil // Envoy ends every stream
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}
