package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// http2Hops lets all requests share one HTTP/2 connection between the hops, with Envoy's own settings.
var http2Hops = stack.NewPatch("HTTP/2 between the hops",
	stack.Set(stack.HTTPOptions("attempts")+"/explicit_http_config", "{http2_protocol_options: {}}"),
	stack.Remove(stack.HTTPOptions("attempts")+"/common_http_protocol_options/max_requests_per_connection"),
	stack.Set(stack.HCM("attempts")+"/codec_type", "AUTO"))

var (
	withoutTrailers = stack.NewPatch("no trailers between the hops", stack.Remove(stack.HCM("attempts")+"/http_protocol_options"))
	trailersIgnored = stack.NewPatch("router A takes no trailers", stack.Set(stack.HTTPOptions("attempts")+"/explicit_http_config", "{http_protocol_options: {}}"))
)

// HTTP/1.1 between the hops passes trailers where both sides are told to. Where one is not, a gRPC answer
// comes without its status.
func TestTrapTrailersBite(t *testing.T) {
	t.Parallel()
	call := stack.Request{Method: "POST", Host: "h2.example", Fault: "grpc:5:trailers", Header: grpcHeader, Body: "call"}
	for _, test := range []struct {
		name    string
		patches []stack.Patch
		want    string
	}{
		{"hop.yaml", nil, "5"},
		{withoutTrailers.Name, []stack.Patch{withoutTrailers}, ""},
		{trailersIgnored.Name, []stack.Patch{trailersIgnored}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startTrap(t, stack.Options{Patches: test.patches})
			a := s.DoH2(call)
			if got := a.Trailer.Get("Grpc-Status"); a.Status != 200 || got != test.want {
				t.Errorf("status %d, grpc-status %q, want %q", a.Status, got, test.want)
			}
			wantHits(t, s, a, 1, 1)
		})
	}
}
