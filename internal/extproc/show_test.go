package extproc

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/verdictproxy/verdict/internal/evidence"
)

// showHeaders makes the headers of a failing answer. By default a POST's first attempt was reset.
func showHeaders(args []string) *extprocv3.ProcessingRequest {
	v := values(args, map[string]string{
		"status": "503", "version": "v1", "flags": "-", "sent": "412", "tries": "1", "received": "5", "duration": "0", "upload": "0",
		"id": "i1", "attempt": "1", "remaining": "10000", "cluster": "app", "details": "via_upstream", "method": "POST",
		"path": "/pay", "key": "-", "length": "5", "lines": "0", "outer-sent": "412", "outer-tries": "1", "outer-id": "i1",
	})
	var list []string
	add := func(header, value string) {
		if value != "" {
			list = append(list, header, value)
		}
	}
	add(":status", v["status"])
	add("grpc-status", v["grpc"])
	add("content-type", v["type"])
	add("content-length", v["body"])
	add("retry-after", v["retry-after"])
	add(evidence.Control, v["control"])
	add(evidence.ReportVerdict, v["reported"])
	add("x-envoy-ratelimited", v["ratelimited"])
	for i := range number(v["lines"]) {
		add("x-line-"+strconv.Itoa(i), "x")
	}
	if v["size"] != "" {
		add("x-size", strings.Repeat("x", number(v["size"])))
	}
	if v["facts"] != "none" {
		add("x-verdict-facts", fmt.Sprintf("%s flags=%s sent=%s tries=%s received=%s duration=%s upload=%s protocol=HTTP/1.1 redirected=%s id=%s attempt=%s remaining=%s host=127.0.0.1:8080 operation=%s cluster=%s",
			v["version"], v["flags"], v["sent"], v["tries"], v["received"], v["duration"], v["upload"], v["redirected"], v["id"], v["attempt"], v["remaining"], v["operation"], v["cluster"]))
		add("x-verdict-details", v["details"])
		add("x-verdict-method", v["method"])
		add("x-verdict-path", v["path"])
		add("x-verdict-key", v["key"])
		add("x-verdict-length", v["length"])
		add("x-verdict-override", v["override"])
		add("x-verdict-early-data", v["early"])
		add("x-verdict-request-id", v["request-id"])
	}
	if v["outer-details"] != "" {
		add("x-verdict-outer", fmt.Sprintf("v1 flags=- sent=%s tries=%s id=%s", v["outer-sent"], v["outer-tries"], v["outer-id"]))
		add("x-verdict-outer-details", v["outer-details"])
		add("x-verdict-outer-method", v["method"])
		add("x-verdict-outer-path", v["path"])
		add("x-verdict-outer-request-id", v["request-id"])
		add("x-verdict-outer-override", v["override"])
	}
	req := responseHeaders(slices.Contains(args, "end"), list...)
	fields := map[string]any{}
	if key, asked := v["attribute"]; asked || v["key"] != "-" {
		fields["request.headers['idempotency-key']"] = cmp.Or(key, v["key"])
	}
	if v["token"] != "" {
		fields["request.headers['authorization']"] = "Bearer " + v["token"]
	}
	if v["mark"] != "" {
		fields["filter_state['verdict.mark']"] = v["mark"]
	}
	if len(fields) > 0 {
		req.Attributes = attributes(fields)
	}
	return req
}

// values overlays defaults with NAME=VALUE arguments.
func values(args []string, defaults map[string]string) map[string]string {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		defaults[name] = value
	}
	return defaults
}

func attributes(fields map[string]any) map[string]*structpb.Struct {
	s, err := structpb.NewStruct(fields)
	if err != nil {
		panic(err)
	}
	return map[string]*structpb.Struct{"envoy.filters.http.ext_proc": s}
}

// showRequest makes a plain stream's request headers, by default a GET's.
func showRequest(args []string) *extprocv3.ProcessingRequest {
	v := values(args, map[string]string{"method": "GET", "path": "/a"})
	list := []string{":method", v["method"], ":path", v["path"]}
	for _, name := range []string{"idempotency-key", "x-http-method-override", "early-data", "x-envoy-attempt-count"} {
		if v[name] != "" {
			list = append(list, name, v[name])
		}
	}
	req := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extprocv3.HttpHeaders{Headers: headerMap(list...), EndOfStream: slices.Contains(args, "end")},
	}}
	if v["cluster"] != "" {
		req.Attributes = attributes(map[string]any{"xds.cluster_name": v["cluster"]})
	}
	return req
}

// showAnswer makes a plain stream's response headers, and the attributes that the operator asked for.
func showAnswer(args []string) *extprocv3.ProcessingRequest {
	v := values(args, map[string]string{"status": "503", "lines": "0"})
	list := []string{":status", v["status"]}
	for header, value := range map[string]string{"grpc-status": v["grpc"], "retry-after": v["retry-after"]} {
		if value != "" {
			list = append(list, header, value)
		}
	}
	for i := range number(v["lines"]) {
		list = append(list, "x-line-"+strconv.Itoa(i), "x")
	}
	fields := map[string]any{}
	if v["details"] != "" {
		fields["response.code_details"] = v["details"]
	}
	if v["cluster"] != "" {
		fields["xds.cluster_name"] = v["cluster"]
	}
	if v["attempts"] != "" {
		fields["upstream.request_attempt_count"] = float64(number(v["attempts"]))
	}
	req := responseHeaders(slices.Contains(args, "end"), list...)
	if len(fields) > 0 {
		req.Attributes = attributes(fields)
	}
	return req
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func headerMap(keysAndValues ...string) *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for i := 0; i < len(keysAndValues); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: keysAndValues[i], RawValue: []byte(keysAndValues[i+1])})
	}
	return m
}

func responseHeaders(end bool, keysAndValues ...string) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extprocv3.HttpHeaders{Headers: headerMap(keysAndValues...), EndOfStream: end},
	}}
}

func showBody(args []string) *extprocv3.ProcessingRequest {
	size := 10
	for _, arg := range args {
		if text, ok := strings.CutPrefix(arg, "size="); ok {
			size = number(text)
		}
	}
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocv3.HttpBody{Body: make([]byte, size), EndOfStream: slices.Contains(args, "end")},
	}}
}
