package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

// TestServe: the whole server on TCP and on Unix sockets: health, reflection, metrics, and an end that
// leaves nothing.
func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale") // left by a process that was killed
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	for name, args := range map[string][]string{
		"tcp":          nil,
		"unix":         {"--data-plane=unix:" + filepath.Join(dir, "data"), "--admin=unix:" + filepath.Join(dir, "admin")},
		"stale socket": {"--data-plane=unix:" + stale},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, append(args, "--drain-time=300ms", "--log-format=text")...)
			conn := dial(t, p.dataPlane)
			watch, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if h, err := watch.Recv(); err != nil || h.GetStatus() != healthv1.HealthCheckResponse_SERVING {
				t.Fatalf("health is %v, %v", h.GetStatus(), err)
			}
			p.wantServices(t, "envoy.service.accesslog.v3.AccessLogService", "envoy.service.ext_proc.v3.ExternalProcessor", "grpc.health.v1.Health")
			if body := p.get(t, "/metrics"); !strings.Contains(body, "verdict_waiting 0") || !strings.Contains(body, "go_goroutines") {
				t.Errorf("metrics: %.200s", body)
			}
			if body := p.get(t, "/healthz"); body != "ok\n" {
				t.Errorf("healthz: %q", body)
			}

			p.signal()
			if h, err := watch.Recv(); err != nil || h.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
				t.Errorf("while draining health is %v, %v", h.GetStatus(), err)
			}
			if h, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil || h.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
				t.Errorf("while draining a check says %v, %v", h.GetStatus(), err)
			}
			p.wantExit(t, 0)
			for _, address := range []string{p.dataPlane, p.admin} {
				if conn, err := net.Dial(network(address), address); err == nil {
					conn.Close()
					t.Errorf("somebody still listens on %s", address)
				}
				if _, err := os.Stat(address); err == nil {
					t.Errorf("the socket %s is left", address)
				}
			}
			if log := p.log.String(); !strings.Contains(log, "msg=draining") || !strings.Contains(log, "msg=stopped") {
				t.Errorf("the log does not say what happened: %s", log)
			}
		})
	}
}

func network(address string) string {
	if strings.HasPrefix(address, "/") {
		return "unix"
	}
	return "tcp"
}

// get asks the admin listener.
func (p *program) get(t *testing.T, path string) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial(network(p.admin), p.admin) }}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Get("http://admin" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("%s: status %d, %v", path, resp.StatusCode, err)
	}
	return string(body)
}

// wantServices asks by reflection.
func (p *program) wantServices(t *testing.T, want ...string) {
	t.Helper()
	if got := services(t, dial(t, p.dataPlane)); !slices.Equal(got, want) {
		t.Errorf("services %q, want %q", got, want)
	}
}

// services are those of a server, sorted, but for reflection itself.
func services(t *testing.T, conn *grpc.ClientConn) []string {
	t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		if !strings.HasPrefix(s.GetName(), "grpc.reflection.") {
			got = append(got, s.GetName())
		}
	}
	stream.CloseSend()
	if _, err := stream.Recv(); err != io.EOF && status.Code(err) != codes.Canceled {
		t.Errorf("reflection ends with %v", err)
	}
	slices.Sort(got)
	return got
}

// TestPanic: a stream that panics fails by itself; the process and the other streams go on.
func TestPanic(t *testing.T) {
	var log buffer
	guarded := recoverPanics(slog.New(slog.NewTextHandler(&log, nil)))
	info := &grpc.StreamServerInfo{FullMethod: "/a/B"}
	err := guarded(nil, nil, info, func(any, grpc.ServerStream) error { panic("what a peer sent") })
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "what a peer sent") {
		t.Errorf("the stream ends with %v", err)
	}
	for _, word := range []string{"level=ERROR", "method=/a/B", "what a peer sent", "TestPanic"} {
		if !strings.Contains(log.String(), word) {
			t.Errorf("the log lacks %s: %s", word, &log)
		}
	}
	if err := guarded(nil, nil, info, func(any, grpc.ServerStream) error { return io.ErrUnexpectedEOF }); err != io.ErrUnexpectedEOF {
		t.Errorf("an error becomes %v", err)
	}
}

// TestKeepalivePings: an Envoy that pings often keeps its connection, and the waits on it.
func TestKeepalivePings(t *testing.T) {
	t.Parallel()
	p := serve(t, "--drain-time=0s")
	conn, err := net.Dial("tcp", p.dataPlane)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for acks := 0; acks < 10; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("after %d pings: %v", acks, err)
		}
		switch f := frame.(type) {
		case *http2.GoAwayFrame:
			t.Fatalf("after %d pings: GOAWAY %v %s", acks, f.ErrCode, f.DebugData())
		case *http2.SettingsFrame:
			if f.IsAck() {
				continue
			}
			framer.WriteSettingsAck()
		case *http2.PingFrame:
			if acks++; !f.IsAck() {
				t.Fatal("a ping of the server's own")
			}
			time.Sleep(20 * time.Millisecond)
		default:
			continue
		}
		if err := framer.WritePing(false, [8]byte{byte(acks)}); err != nil {
			t.Fatal(err)
		}
	}
}
