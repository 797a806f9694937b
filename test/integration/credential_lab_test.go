package integration

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// clientSecret is what the source shows to the token endpoint, and nobody else ever sees.
const clientSecret = "kept-client-secret-0123456789"

// issuers is a token endpoint with a path, and so a source and tokens, for each upstream of a lab.
type issuers struct {
	server *httptest.Server

	mu       sync.Mutex
	byName   map[string]*issuer
	upstream *upstream.Server
}

// issuer issues the tokens NAME-token-1, NAME-token-2 and so on, which the upstream accepts until they are
// revoked.
type issuer struct {
	all    *issuers
	name   string
	asked  int
	tokens []string
	// refuses: the upstream accepts none of its tokens.
	refuses bool
	// play answers instead, where set.
	play http.HandlerFunc
}

func newIssuers(t *testing.T) *issuers {
	all := &issuers{byName: map[string]*issuer{}}
	all.server = httptest.NewServer(all)
	t.Cleanup(all.server.Close)
	return all
}

func (all *issuers) issuer(name string) *issuer {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byName[name] == nil {
		all.byName[name] = &issuer{all: all, name: name}
	}
	return all.byName[name]
}

// ServeHTTP is the client credentials grant (RFC 6749 section 4.4).
func (all *issuers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := all.issuer(strings.TrimPrefix(r.URL.Path, "/"))
	all.mu.Lock()
	i.asked++
	play := i.play
	all.mu.Unlock()
	_, secret, basic := r.BasicAuth()
	if !basic {
		secret = r.FormValue("client_secret")
	}
	if secret != clientSecret || r.FormValue("grant_type") != "client_credentials" {
		http.Error(w, `{"error": "invalid_client"}`, http.StatusUnauthorized)
		return
	}
	if play != nil {
		play(w, r)
		return
	}
	i.answer(w, 3600)
}

// answer issues a token that lives so many seconds.
func (i *issuer) answer(w http.ResponseWriter, seconds int) {
	w.Header().Set("content-type", "application/json")
	_, _ = fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": %d}`, i.issue(), seconds)
}

func (i *issuer) issue() string {
	i.all.mu.Lock()
	defer i.all.mu.Unlock()
	token := fmt.Sprintf("%s-token-%d", i.name, len(i.tokens)+1)
	i.tokens = append(i.tokens, token)
	if i.all.upstream != nil && !i.refuses {
		i.all.upstream.Accept("Bearer " + token)
	}
	return token
}

// accept tells the upstream of every token so far, and of those to come.
func (all *issuers) accept(up *upstream.Server) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.upstream = up
	for _, i := range all.byName {
		for _, token := range i.tokens {
			up.Accept("Bearer " + token)
		}
	}
}

// revoke has the upstream reject every token that there is.
func (i *issuer) revoke() {
	i.all.mu.Lock()
	defer i.all.mu.Unlock()
	for _, token := range i.tokens {
		i.all.upstream.Reject("Bearer " + token)
	}
}

// refuse has the upstream reject every token, also those to come.
func (i *issuer) refuse() {
	i.revoke()
	i.all.mu.Lock()
	defer i.all.mu.Unlock()
	i.refuses = true
}

func (i *issuer) plays(f http.HandlerFunc) {
	i.all.mu.Lock()
	defer i.all.mu.Unlock()
	i.play = f
}

// fetches is how often the endpoint was asked.
func (i *issuer) fetches() int {
	i.all.mu.Lock()
	defer i.all.mu.Unlock()
	return i.asked
}

// credentialLab is a Stack with an upstream NAME, and a virtual host NAME.example, for each source.
type credentialLab struct {
	*stack.Stack
	*issuers
	eventLog eventLog
}

// source is an upstream of a credentialLab.
type source struct {
	name    string
	timeout string // of one fetch; "" is 10s
	policy  string // YAML
	address string // of the upstream, as AddUpstream takes it; "" is h1
	// play is what its endpoint plays from the beginning; nil issues tokens.
	play func(*issuer) http.HandlerFunc
}

func startCredentials(t *testing.T, first stack.FirstAttempts, o stack.Options, sources ...source) *credentialLab {
	t.Helper()
	l := &credentialLab{issuers: newIssuers(t), eventLog: newEventLog(t)}
	secret := filepath.Join(t.TempDir(), "client-secret")
	if err := os.WriteFile(secret, []byte(clientSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var hosts []string
	var edits []stack.Edit
	config := "upstreams:\n"
	for _, s := range sources {
		hosts = append(hosts, s.name)
		edits = append(edits, stack.AddUpstream(s.name, cmp.Or(s.address, "h1"), "", ""))
		if s.play != nil {
			l.issuer(s.name).plays(s.play(l.issuer(s.name)))
		}
		config += fmt.Sprintf("- clusters: [%s]\n  policy: %s\n  credential: {first_attempts: %t, oauth2: {token_url: %s/%s, client_id: verdict, client_secret_file: %q, allow_http: true, timeout: %s}}\n",
			s.name, cmp.Or(s.policy, "{}"), first == stack.FirstFromVerdict, l.server.URL, s.name, secret, cmp.Or(s.timeout, "10s"))
	}
	o.Config = config + o.Config
	o.Patches = append([]stack.Patch{stack.NewPatch("upstreams", edits...), stack.Credential(first, hosts...)}, o.Patches...)
	if o.Replicas < 2 {
		o.ExtprocArgs = append(o.ExtprocArgs, l.eventLog.args()...)
	}
	l.Stack = start(t, o)
	l.accept(l.Upstream)
	return l
}

// get is a GET that the upstream lets in with a good credential only.
func get(name string) stack.Request {
	return stack.Request{Host: name + ".example", Fault: "guarded"}
}

func with(r stack.Request, method string) stack.Request {
	r.Method, r.Body = method, "10 EUR"
	return r
}

// carried are the authorization headers of a request's attempts, "" for none.
func (l *credentialLab) carried(a stack.Answer) []string {
	var values []string
	for _, hit := range l.Upstream.Hits(a.ID) {
		values = append(values, strings.Join(hit.Header["Authorization"], " and "))
	}
	return values
}

// wantCarried compares the attempts' credentials with tokens, "" being none.
func (l *credentialLab) wantCarried(t *testing.T, a stack.Answer, tokens ...string) {
	t.Helper()
	for i := range tokens {
		if tokens[i] != "" {
			tokens[i] = "Bearer " + tokens[i]
		}
	}
	if got := l.carried(a); strings.Join(got, ", ") != strings.Join(tokens, ", ") {
		t.Errorf("the attempts carried %q, want %q", got, tokens)
	}
}

// wantFetches waits until the endpoint was asked n times, and checks that it was not asked more often.
func (i *issuer) wantFetches(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); i.fetches() < n && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := i.fetches(); got != n {
		t.Errorf("the token endpoint was asked %d times, want %d", got, n)
	}
}

func wantStatus(t *testing.T, a stack.Answer, status int) {
	t.Helper()
	if a.Status != status {
		t.Errorf("status %d, want %d: %+v", a.Status, status, a.Report())
	}
}

// wantRetries checks how many retries towards an upstream were paid for.
func (l *credentialLab) wantRetries(t *testing.T, upstream string, n int) {
	t.Helper()
	got := 0
	for _, net := range granted(l.eventLog.events(t, upstream)) {
		got += net
	}
	if got != n {
		t.Errorf("%d retries towards %s were paid for, want %d", got, upstream, n)
	}
}

// waitRetry waits until Verdict has said retry of an answer of the upstream.
func (l *credentialLab) waitRetry(t *testing.T, upstream string) {
	t.Helper()
	said := func() bool {
		for line := range strings.Lines(l.ServiceLog(0)) {
			if strings.Contains(line, "verdict=retry") && strings.Contains(line, "upstream="+upstream+" ") {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(20 * time.Second); !said(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no retry was said")
		}
	}
}

// ask sends a request while the test goes on.
func (l *credentialLab) ask(t *testing.T, r stack.Request) <-chan stack.Answer {
	answered := make(chan stack.Answer, 1)
	go func() {
		a, err := l.Try(context.Background(), r)
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	return answered
}
