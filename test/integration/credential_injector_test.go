package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// First attempts get their credential from Envoy, by the file that Verdict reads too.
func TestCredentialInjector(t *testing.T) {
	t.Parallel()
	secret := tokenSecret(t, "T1")
	dir := filepath.Dir(secret)
	s := start(t, stack.Options{
		Config:  fmt.Sprintf("upstreams: [{clusters: [app], credential: {token_file: {path: %q}}}]\n", filepath.Join(dir, "token")),
		Patches: []stack.Patch{stack.Credential(stack.FirstFromEnvoy, "app"), injectorOf(stack.EnvoyVersion, secret)},
	})
	l := &credentialLab{Stack: s}
	s.Upstream.Accept("Bearer T1")
	guarded := stack.Request{Fault: "guarded", Header: []string{"authorization: Bearer clients"}}
	before := s.ExtProcStat("attempts", "streams_started")
	a := s.Do(guarded)
	wantStatus(t, a, 200)
	l.wantCarried(t, a, "T1")
	if n := s.ExtProcStat("attempts", "streams_started") - before; n != 0 {
		t.Errorf("a first attempt called Verdict %d times", n)
	}

	// The token was replaced after the first attempt had left.
	s.Upstream.Reject("Bearer T1")
	s.Upstream.Accept("Bearer T2")
	r := guarded
	r.ID, r.Fault = s.NewID(), "guarded delay=800ms, guarded"
	answered := l.ask(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.Upstream.WaitHits(ctx, r.ID, 1); err != nil {
		t.Fatal(err)
	}
	writeToken(t, dir, "T2")
	a = <-answered
	wantStatus(t, a, 200)
	l.wantCarried(t, a, "T1", "T2")

	// The file still has what the upstream rejects.
	s.Upstream.Reject("Bearer T2")
	a = s.Do(guarded)
	for end := time.Now().Add(20 * time.Second); l.carried(a)[0] != "Bearer T2" && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond) // Envoy has not seen the new file yet
		a = s.Do(guarded)
	}
	wantStatus(t, a, 401)
	l.wantCarried(t, a, "T2")
	wantReport(t, a, denied401("credential_rejected", "NOT_EXECUTED", "1"))
}

// A token that Envoy has fetched itself was not issued by Verdict's source, even by the same endpoint.
func TestCredentialOfEnvoysOwn(t *testing.T) {
	t.Parallel()
	l := startEnvoysOwn(t, clientSecret)
	i := l.issuer("app")
	i.wantFetches(t, 2) // Envoy's, and Verdict's
	a := l.Do(stack.Request{Fault: "guarded"})
	wantStatus(t, a, 200)
	i.revoke()
	a = l.Do(stack.Request{Fault: "guarded"})
	wantStatus(t, a, 401)
	wantReport(t, a, denied401("credential_not_ours", "NOT_EXECUTED", "1"))
	if got := l.carried(a); len(got) != 1 || got[0] == "" {
		t.Errorf("the attempts carried %q", got)
	}
}

// An injector that has no credential refuses the attempt: nothing was sent.
func TestCredentialOfEnvoyIsMissing(t *testing.T) {
	t.Parallel()
	l := startEnvoysOwn(t, "no-such-secret")
	a := l.Do(stack.Request{Method: "POST", Fault: "guarded", Body: "10 EUR"})
	wantStatus(t, a, 401)
	wantReport(t, a, stack.Report{Verdict: "denied", Reason: "permanent_failure", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "1"})
	wantHits(t, l.Stack, a, 0, 0)
}

// startEnvoysOwn starts a Stack in which Envoy fetches first attempts' tokens itself, showing that secret.
func startEnvoysOwn(t *testing.T, envoysSecret string) *credentialLab {
	t.Helper()
	all := newIssuers(t)
	host, port, err := net.SplitHostPort(all.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "client-secret")
	if err := os.WriteFile(secret, []byte(clientSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	own := stack.NewPatch("Envoy's own client credentials",
		stack.Set(stack.DelegatedConfig("attempts", "credential-injector")+"/credential", fmt.Sprintf(`{name: envoy.http.injected_credentials.oauth2, typed_config: {
			"@type": type.googleapis.com/envoy.extensions.http.injected_credentials.oauth2.v3.OAuth2,
			token_endpoint: {uri: %q, cluster: issuer, timeout: 5s},
			client_credentials: {client_id: envoy, client_secret: {name: client-secret}}}}`, all.server.URL+"/app")),
		stack.Set("static_resources/secrets", fmt.Sprintf(`[{name: client-secret, generic_secret: {secret: {inline_string: %q}}}]`, envoysSecret)),
		stack.Append("static_resources/clusters", fmt.Sprintf(`{name: issuer, load_assignment: {cluster_name: issuer, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}]}]}}`, host, port)))
	s := start(t, stack.Options{
		Config: fmt.Sprintf("upstreams: [{clusters: [app], credential: {oauth2: {token_url: %q, client_id: verdict, client_secret_file: %q, allow_http: true}}}]\n",
			all.server.URL+"/app", secret),
		Patches: []stack.Patch{stack.Credential(stack.FirstFromEnvoy, "app"), own},
	})
	all.accept(s.Upstream)
	return &credentialLab{Stack: s, issuers: all}
}
