package app

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/pkg/budget"
)

type processStream = grpc.BidiStreamingClient[extprocv3.ProcessingRequest, extprocv3.ProcessingResponse]

// judge opens a judge's stream and shows it a 429 that asks for a wait of so many seconds.
func (p *program) judge(t *testing.T, retryAfter string, end bool) processStream {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-verdict-role", "judge", "x-verdict-replay-limit", "1048576",
		"x-verdict-retries", "3", "x-verdict-max-wait", "12000", "x-verdict-max-headers", "200")
	stream, err := extprocv3.NewExternalProcessorClient(dial(t, p.dataPlane)).Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	headers := &corev3.HeaderMap{}
	for _, h := range [][2]string{
		{":status", "429"}, {"retry-after", retryAfter},
		{"x-verdict-facts", "v1 flags=- sent=412 tries=1 received=5 duration=0 upload=0 protocol=HTTP/1.1 redirected= id=i1 attempt=1 remaining=20000 host=127.0.0.1:1 operation= cluster=app"},
		{"x-verdict-details", "via_upstream"}, {"x-verdict-method", "POST"}, {"x-verdict-path", "/pay"}, {"x-verdict-key", "-"}, {"x-verdict-length", "5"},
	} {
		headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: h[0], RawValue: []byte(h[1])})
	}
	if err := stream.Send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extprocv3.HttpHeaders{Headers: headers, EndOfStream: end},
	}}); err != nil {
		t.Fatal(err)
	}
	return stream
}

// said returns the headers that an answer sets.
func said(t *testing.T, stream processStream) map[string]string {
	t.Helper()
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for _, o := range resp.GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		set[o.GetHeader().GetKey()] = string(o.GetHeader().GetRawValue())
	}
	return set
}

// waiting opens a judge's stream that waits.
func (p *program) waiting(t *testing.T, retryAfter string) processStream {
	t.Helper()
	stream := p.judge(t, retryAfter, true)
	if resp, err := stream.Recv(); err != nil || resp.GetOverrideMessageTimeout() == nil {
		t.Fatalf("no wait begins: %v, %v", resp, err)
	}
	return stream
}

// accessLog opens Envoy's access-log stream, which never ends by itself.
func (p *program) accessLog(t *testing.T) {
	t.Helper()
	stream, err := alsv3.NewAccessLogServiceClient(dial(t, p.dataPlane)).StreamAccessLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&alsv3.StreamAccessLogsMessage{}); err != nil {
		t.Fatal(err)
	}
}

func wantEvents(t *testing.T, path string, want ...string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		var e budget.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		got = append(got, string(e.Kind)+" "+e.Account)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("the event log has %q, want %q", got, want)
	}
}

// TestDrain: at SIGTERM a wait that fits the drain time runs on and ends with its retry; the others are
// told at once, and their tokens are back before the program ends.
func TestDrain(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	p := serve(t, "--drain-time=4s", "--event-log="+events)
	p.accessLog(t)
	short, long := p.waiting(t, "1"), p.waiting(t, "9") // 1 s to 1.5 s, 9 s to 13.5 s
	begin := time.Now()
	p.signal()
	if set := said(t, long); set["x-verdict-control"] != "" || set["x-retry-verdict"] != "denied" || set["x-retry-reason"] != "runtime_draining" || set["x-retry-execution"] != "NOT_EXECUTED" {
		t.Errorf("the long wait ends with %v", set)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it ends after %v", took)
	}
	late := p.judge(t, "1", true)
	if set := said(t, late); set["x-retry-reason"] != "runtime_draining" {
		t.Errorf("a wait that would begin now ends with %v", set)
	}
	if set := said(t, short); set["x-verdict-control"] != "retry" {
		t.Errorf("the short wait ends with %v", set)
	}
	for _, stream := range []processStream{short, long, late} {
		stream.CloseSend()
		if resp, err := stream.Recv(); err != io.EOF {
			t.Errorf("a stream ends with %v, %v", resp, err)
		}
	}
	p.wantExit(t, 0)
	wantEvents(t, events, "grant app", "grant app", "return app")
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the program ends after %v, though nothing is held", took)
	}
}

// TestStop: with no drain time every wait ends at once, in whatever phase it is, and no token is lost.
func TestStop(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	p := serve(t, "--drain-time=0s", "--event-log="+events)
	p.accessLog(t)
	held := p.waiting(t, "1")
	body := p.judge(t, "1", false)
	if resp, err := body.Recv(); err != nil || resp.GetModeOverride() == nil {
		t.Fatalf("the judge does not ask for the body: %v, %v", resp, err)
	}
	p.signal()
	if set := said(t, held); set["x-retry-reason"] != "runtime_draining" {
		t.Errorf("the wait ends with %v", set)
	}
	if resp, err := body.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream without its body ends with %v, %v", resp, err)
	}
	p.wantExit(t, 0)
	wantEvents(t, events, "grant app", "return app")
}
