package extproc

import (
	"context"
	"net"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"

	"github.com/verdictproxy/verdict/internal/tracing"
)

// BenchmarkJudge is a stream on which the judge denies, without a connection: without traces, with
// those of a caller that does not sample, and with spans that a collector which is away never gets.
// go test ./internal/extproc -run '^$' -bench Judge -count 10
func BenchmarkJudge(b *testing.B) {
	b.Run("traces=off", func(b *testing.B) { benchJudge(b, nil, "") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	l.Close()
	b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	lab := newLab(b, "")
	tracer, err := tracing.New("", lab.Log)
	if err != nil {
		b.Fatal(err)
	}
	defer tracer.Close(time.Second)
	b.Run("traces=unsampled", func(b *testing.B) { benchJudge(b, tracer, "00") })
	b.Run("traces=sampled", func(b *testing.B) { benchJudge(b, tracer, "01") })
}

func benchJudge(b *testing.B, tracer *tracing.Tracer, flags string) {
	l := newLab(b, "")
	l.Tracer = tracer
	md := judgeMetadata()
	if flags != "" {
		md.Set("traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-"+flags)
	}
	ctx := metadata.NewIncomingContext(context.Background(), md)
	req := showHeaders([]string{"method=GET", "status=404"})
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Process(&memoryStream{ctx: ctx, in: []*extprocv3.ProcessingRequest{req}}); err != nil {
			b.Fatal(err)
		}
	}
}
