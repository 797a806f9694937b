package integration

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/verdictproxy/verdict/test/collector"
	"github.com/verdictproxy/verdict/test/stack"
)

// No token, mark or secret leaves for where people look: logs at any level, metrics, traces, answers, the
// ledger, the event log, what is remembered of decisions, the operator's pages.
func TestCredentialSecretsStayInside(t *testing.T) {
	t.Parallel()
	c, entries := collector.Start(t), startEntries(t)
	quoting := func(i *issuer) http.HandlerFunc { // an endpoint that says again what it was told
		return func(w http.ResponseWriter, r *http.Request) {
			_, secret, _ := r.BasicAuth()
			w.Header().Set("www-authenticate", "Basic "+secret)
			http.Error(w, fmt.Sprintf(`{"error": "invalid_client", "error_description": %q, "error_uri": %q, "access_token": %q}`, secret, secret, i.issue()), http.StatusUnauthorized)
		}
	}
	l := startCredentials(t, stack.FirstFromVerdict, stack.Options{
		ExtprocEnv: tracesTo(c.Addr),
		Patches:    []stack.Patch{traced(t, c.Addr), entries.patch(t)},
	}, source{name: "good", policy: "{replay_on_401: idempotent, backoff: {base: 0.001s, max: 0.001s}}"}, source{name: "second"}, source{name: "quoting", play: quoting})

	client := []string{"authorization: Bearer clients-token-0"}
	send := func(name, method, fault string) stack.Answer {
		r := with(get(name), method)
		r.Header, r.Fault = client, fault
		return l.Do(r)
	}
	answers := []stack.Answer{send("good", "GET", "guarded"), send("quoting", "POST", "guarded")}
	l.issuer("good").revoke()
	answers = append(answers, send("good", "GET", "guarded"), send("good", "PUT", "503, reset"), send("good", "POST", "reset"))
	l.issuer("good").revoke()
	answers = append(answers, send("good", "POST", "guarded"), send("second", "GET", "guarded"))
	l.issuer("second").refuse()
	answers = append(answers, send("second", "GET", "guarded"), send("quoting", "GET", "503"))

	token, mark := l.setByVerdict(t, "good")
	secrets := []string{clientSecret, "clients-token", token, mark}
	for _, name := range []string{"good", "second", "quoting"} {
		secrets = append(secrets, name+"-token")
	}
	for _, secret := range secrets {
		if len(secret) < 8 {
			t.Fatalf("%q is no secret to look for", secret)
		}
	}

	if got := l.carried(answers[0]); len(got) != 1 || !strings.Contains(got[0], "good-token") {
		t.Errorf("the upstream was shown %q", got)
	}

	seen := map[string]string{
		"the service's log": l.ServiceLog(0), "Envoy's log": l.EnvoyLog(),
		"the event log": string(readFile(t, string(l.eventLog))),
	}
	for name, url := range map[string]string{
		"metrics": l.ServiceAdminURL(0) + "/metrics", "Envoy's statistics": l.AdminURL() + "/stats", "the console": l.ServiceAdminURL(0) + "/console/",
	} {
		seen[name] = fetch(t, url)
	}
	server := "--server=" + strings.TrimPrefix(l.ServiceAdminURL(0), "http://")
	ledger := wantOutput(t, true, nil, extproc, "ledger", "list", server)
	seen["the ledger"] = ledger
	uncertain := 0
	for n, a := range answers {
		seen[fmt.Sprintf("answer %d", n)] = fmt.Sprint(a.Status, a.Header, a.Body, a.Trailer)
		report := a.Report()
		if report.Verdict == "" {
			continue
		}
		seen[fmt.Sprintf("why answer %d", n)] = wantOutput(t, true, []string{"attempt"}, extproc, "why", report.RequestID, server)
		if report.AmbiguityID != "" {
			uncertain++
			seen[fmt.Sprintf("the case of answer %d", n)] = wantOutput(t, true, nil, extproc, "ledger", "get", report.AmbiguityID, server)
		}
	}
	if n := strings.Count(ledger, "\n"); uncertain == 0 || n < uncertain {
		t.Errorf("%d cases in the ledger for %d uncertain outcomes", n, uncertain)
	}
	c.Wait(t, "a span of a decision", func(spans []collector.Span) bool {
		decided := false
		for i, span := range spans {
			seen[fmt.Sprintf("span %d", i)] = span.String()
			decided = decided || span.Attributes["verdict.reason"] == "credential_rejected"
		}
		return decided
	})
	seen["Envoy's access log"] = entries.wait(t, len(answers))
	for _, a := range answers {
		for _, hit := range l.Upstream.Hits(a.ID) {
			if hit.Header.Get("X-Verdict-Mark") != "" {
				t.Errorf("the upstream was shown the mark: %v", hit.Header)
			}
		}
	}
	for where, text := range seen {
		for _, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s: %q in %.200q", where, secret, text[max(0, at-100):])
			}
		}
	}
	for _, word := range []string{"level=DEBUG", "reason=credential_rejected", "reason=permanent_failure", "the credential source fails"} {
		if !strings.Contains(seen["the service's log"], word) {
			t.Errorf("the log lacks %q", word)
		}
	}
}

// setByVerdict asks Verdict what it sets on an attempt, as Envoy does.
func (l *credentialLab) setByVerdict(t *testing.T, upstream string) (authorization, mark string) {
	t.Helper()
	conn, err := grpc.NewClient(l.ServiceAddr(0), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(metadata.AppendToOutgoingContext(t.Context(), "x-verdict-role", "credential"))
	if err != nil {
		t.Fatal(err)
	}
	attributes, err := structpb.NewStruct(map[string]any{"xds.cluster_name": upstream})
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&extprocv3.ProcessingRequest{
		Attributes: map[string]*structpb.Struct{"envoy.filters.http.ext_proc": attributes},
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{
			Headers: []*corev3.HeaderValue{{Key: "x-envoy-attempt-count", RawValue: []byte("2")}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for _, h := range resp.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		set[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
	}
	return set["authorization"], set["x-verdict-mark"]
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: status %d, %v", url, resp.StatusCode, err)
	}
	return string(body)
}

// entries are what Envoy's access log of the inner hop tells, taken down in Verdict's place.
type entries struct {
	alsv3.UnimplementedAccessLogServiceServer
	addr string

	mu   sync.Mutex
	text []string
}

func startEntries(t *testing.T) *entries {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &entries{addr: listener.Addr().String()}
	server := grpc.NewServer()
	alsv3.RegisterAccessLogServiceServer(server, e)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *entries) StreamAccessLogs(stream alsv3.AccessLogService_StreamAccessLogsServer) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		e.mu.Lock()
		for _, entry := range message.GetHttpLogs().GetLogEntry() {
			e.text = append(e.text, entry.String())
		}
		e.mu.Unlock()
	}
}

func (e *entries) patch(t *testing.T) stack.Patch {
	host, port, err := net.SplitHostPort(e.addr)
	if err != nil {
		t.Fatal(err)
	}
	return stack.NewPatch("the access log goes to the test",
		stack.Set(stack.HCM("attempts")+"/access_log/0/typed_config/common_config/grpc_service/envoy_grpc/cluster_name", "entries"),
		stack.Append("static_resources/clusters", fmt.Sprintf(`{name: entries, typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {"@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http2_protocol_options: {}}}}, load_assignment: {cluster_name: entries, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]}}`, host, port)))
}

// wait returns what was told once there are at least n entries.
func (e *entries) wait(t *testing.T, n int) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		e.mu.Lock()
		told, text := len(e.text), strings.Join(e.text, "\n")
		e.mu.Unlock()
		if told >= n {
			return text
		}
		if time.Now().After(end) {
			t.Errorf("%d entries of %d attempts or more", told, n)
			return text
		}
	}
}
