package integration

import "github.com/verdictproxy/verdict/test/stack"

// http2Hops lets all requests share one HTTP/2 connection between the hops, with Envoy's own settings.
var http2Hops = stack.NewPatch("HTTP/2 between the hops",
	stack.Set(stack.HTTPOptions("attempts")+"/explicit_http_config", "{http2_protocol_options: {}}"),
	stack.Set(stack.HCM("attempts")+"/codec_type", "AUTO"))

var withoutTrailers = stack.NewPatch("no trailers between the hops", stack.Remove(stack.HCM("attempts")+"/http_protocol_options"))
