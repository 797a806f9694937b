package app

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/memory"
)

// raw sends bytes as they are.
type raw struct{ encoding.CodecV2 }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(mem.BufferSlice, any) error { return nil }
func (raw) Name() string                         { return "proto" }

// Bytes that are no message are refused by every method of either listener, the one that also speaks plain
// HTTP too, and harm nobody. The admin service is on the admin listener alone.
func TestMalformedOnTheListeners(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "api")
	p := serve(t, "--api=unix:"+socket, "--drain-time=0s")
	for _, listener := range []struct {
		address string
		admin   codes.Code
	}{{p.admin, codes.InvalidArgument}, {socket, codes.Unimplemented}} {
		conn := dial(t, listener.address)
		methods := 0
		protoregistry.GlobalFiles.RangeFilesByPackage("retry.v1", func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				service := file.Services().Get(i)
				for j := range service.Methods().Len() {
					methods++
					m := service.Methods().Get(j)
					want := codes.InvalidArgument
					if service.Name() == "AdminService" {
						want = listener.admin
					}
					for _, data := range []string{"\xff", "\x0a\xff\xff\xff\xff\x0f", "\x07", strings.Repeat("\x0a", 100_000)} {
						ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
						stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: m.IsStreamingServer()}, "/"+string(service.FullName())+"/"+string(m.Name()), grpc.ForceCodecV2(raw{}))
						if err != nil {
							t.Fatal(err)
						}
						_ = stream.SendMsg([]byte(data)) // a server that refuses early does not read
						_ = stream.CloseSend()
						if err := stream.RecvMsg(nil); status.Code(err) != want {
							t.Errorf("%s %.5q at %s: %v, want %v", m.FullName(), data, listener.address, err, want)
						}
						cancel()
					}
				}
			}
			return true
		})
		if methods < 18 {
			t.Errorf("only %d methods", methods)
		}
		big := make([]byte, maxAPIMessage+1)
		err := conn.Invoke(t.Context(), retryv1.LedgerService_Get_FullMethodName, big, nil, grpc.ForceCodecV2(raw{}))
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a message of more than %d bytes: %v", maxAPIMessage, err)
		}
		if _, err := retryv1.NewBudgetServiceClient(conn).List(t.Context(), &retryv1.BudgetServiceListRequest{}); err != nil {
			t.Errorf("after all that: %v", err)
		}
	}
	if strings.Contains(p.log.String(), "panic") {
		t.Errorf("somebody panicked: %s", p.log)
	}
}

// slow is a ledger that answers when it is told to, and not when its caller has left.
type slow struct {
	ledger.Ledger
	asked, answer chan struct{}
}

func (l slow) Get(context.Context, string) (*ledger.Case, error) {
	close(l.asked)
	<-l.answer
	return nil, ledger.ErrNotFound
}

// A server has stopped when its last handler has ended, whichever way it is stopped: what they use is closed
// after that.
func TestStopWaitsForHandlers(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*grpc.Server){"the API's": stopSoon, "the admin listener's": (*grpc.Server).Stop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := slow{memory.New(0, nil), make(chan struct{}), make(chan struct{})}
			server := (&api{ledger: l, log: slog.New(slog.DiscardHandler)}).server(health.NewServer())
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			called := make(chan error, 1)
			client := retryv1.NewLedgerServiceClient(dial(t, listener.Addr().String()))
			go func() {
				_, err := client.Get(context.Background(), &retryv1.LedgerServiceGetRequest{CaseId: "c"})
				called <- err
			}()
			<-l.asked
			stopped := make(chan struct{})
			go func() {
				stop(server)
				close(stopped)
			}()
			if err := <-called; status.Code(err) != codes.Unavailable {
				t.Errorf("the caller gets %v", err)
			}
			select {
			case <-stopped:
				t.Error("stopped, with a handler running")
			case <-time.After(300 * time.Millisecond):
			}
			close(l.answer)
			<-stopped
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}
