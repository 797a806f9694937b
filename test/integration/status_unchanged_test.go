package integration

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/verdictproxy/verdict/test/stack"
)

// application answers with the status and the body's size that the query asks for: binary bytes, header
// lines that occur twice, and values that are not ASCII.
func application() *httptest.Server {
	binary := make([]byte, 64<<10)
	for i := range binary {
		binary[i] = byte(i * i >> 3)
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Twice"] = []string{"one", "two"}
		h["X-Bytes"] = []string{"caf\xe9 \xff"}
		h["X-Empty"] = []string{""}
		h["Content-Type"] = []string{"application/octet-stream"}
		query := r.URL.Query()
		status, _ := strconv.Atoi(query.Get("status"))
		size, _ := strconv.Atoi(query.Get("size"))
		if query.Get("chunked") == "" {
			h["Content-Length"] = []string{strconv.Itoa(size)}
		}
		w.WriteHeader(status)
		for size > 0 {
			n, err := w.Write(binary[:min(size, len(binary))])
			if err != nil {
				return
			}
			size -= n
		}
	}))
}

// An answer that is not retried is the upstream's own, to the byte: Verdict adds headers, and changes
// nothing.
func TestStatusAnswerIsPassedOnUnchanged(t *testing.T) {
	t.Parallel()
	app := application()
	t.Cleanup(app.Close)
	s := start(t, stack.Options{Patches: []stack.Patch{stack.NewPatch("an application with time for large answers",
		stack.AddUpstream("application", app.Listener.Addr().String(), "", "{route: {cluster: application, timeout: 20s}}"),
		stack.Set(stack.Route("outer", "all", "0")+"/route/timeout", "30s"))}})

	const large = "size=5000000"
	ambiguous := stack.Report{Verdict: "ambiguous", Reason: "gateway_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"}
	denied := stack.Report{Verdict: "denied", Reason: "status_not_retryable", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"}
	executed, tooLarge := denied, denied
	executed.Execution, tooLarge.Reason = "EXECUTED", "error_body_too_large"
	for _, test := range []struct {
		method, query string
		want          stack.Report
	}{
		{"POST", "status=503&size=300", ambiguous},
		{"POST", "status=503&size=0", ambiguous},
		{"POST", "status=503&size=100000&chunked=1", ambiguous},
		{"POST", "status=503&" + large, ambiguous},
		{"POST", "status=500&size=300", denied},
		{"POST", "status=500&size=0", denied},
		{"POST", "status=500&" + large, denied},
		{"POST", "status=500&chunked=1&" + large, denied},
		{"PUT", "status=503&" + large, tooLarge}, // the judge has held its beginning
		{"PUT", "status=503&chunked=1&" + large, tooLarge},
		{"GET", "status=404&size=300", executed},
		{"HEAD", "status=500&size=300", denied},
		{"POST", "status=200&" + large, stack.Report{}},
		{"POST", "status=302&size=300", stack.Report{}},
	} {
		t.Run(test.method+"_"+test.query, func(t *testing.T) {
			t.Parallel()
			r := stack.Request{Method: test.method, Host: "application.example", Target: "/?" + test.query}
			if test.method != "GET" && test.method != "HEAD" {
				r.Body = "pay"
			}
			through, direct := s.Do(r), ask(t, app, r)
			wantReport(t, through, test.want)
			if id := through.Report().AmbiguityID; (id != "") != (test.want.Verdict == "ambiguous" || test.want == tooLarge) {
				t.Errorf("x-retry-ambiguity-id %q", id)
			}
			if through.Status != direct.Status {
				t.Errorf("status %d, the upstream's is %d", through.Status, direct.Status)
			}
			if diff := cmp.Diff(withoutHops(direct.Header), withoutHops(through.Header)); diff != "" {
				t.Errorf("headers (-upstream +client):\n%s", diff)
			}
			if got, want := sha256.Sum256([]byte(through.Body)), sha256.Sum256([]byte(direct.Body)); got != want {
				t.Errorf("another body: %d bytes, the upstream's has %d", len(through.Body), len(direct.Body))
			}
		})
	}
}

// ask sends a request to the application itself.
func ask(t *testing.T, app *httptest.Server, r stack.Request) stack.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.Method, app.URL+r.Target, strings.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return stack.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

// withoutHops leaves out what every hop writes anew, and the report.
func withoutHops(h http.Header) http.Header {
	kept := http.Header{}
	for name, lines := range h {
		switch name {
		case "Date", "Server", "Connection", "X-Envoy-Upstream-Service-Time", "X-Request-Id":
			continue
		}
		if !strings.HasPrefix(name, "X-Retry-") {
			kept[name] = lines
		}
	}
	return kept
}
