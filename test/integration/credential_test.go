package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// credentialDeadline is a request's, so that a slow token endpoint has something to exceed.
var credentialDeadline = stack.NewPatch("a deadline of 3 s", stack.Set(stack.Route("outer", "all", "0")+"/route/timeout", "3s"))

// denied401 is the report on a 401 that ends the request.
func denied401(reason, execution, attempts string) stack.Report {
	return stack.Report{Verdict: "denied", Reason: reason, Evidence: "RESPONSE_RECEIVED", Execution: execution, Attempts: attempts}
}

// A 401 to the service's own credential is answered by one refresh and one replay; each upstream here has a
// source of its own.
func TestCredentialReplay(t *testing.T) {
	t.Parallel()
	sources := []source{{name: "refreshed"}, {name: "body"}, {name: "second"}, {name: "post"}, {name: "put"}, {name: "crowd"},
		{name: "opened", policy: "{replay_on_401: idempotent}"}, {name: "oneshot"}, {name: "client"}}
	for name := range badEndpoints {
		sources = append(sources, source{name: name, timeout: badEndpoints[name].timeout})
	}
	l := startCredentials(t, stack.FirstFromVerdict, stack.Options{Patches: []stack.Patch{credentialDeadline}}, sources...)

	t.Run("refreshed once and replayed once", func(t *testing.T) {
		t.Parallel()
		i := l.issuer("refreshed")
		a := l.Do(get("refreshed"))
		wantStatus(t, a, 200)
		l.wantCarried(t, a, "refreshed-token-1")
		i.revoke()
		a = l.Do(get("refreshed"))
		wantStatus(t, a, 200)
		l.wantCarried(t, a, "refreshed-token-1", "refreshed-token-2")
		wantHits(t, l.Stack, a, 2, 1)
		wantNothingInternal(t, a)
		i.wantFetches(t, 2)
		l.wantRetries(t, "refreshed", 1)
	})
	t.Run("a 401 with a long body", func(t *testing.T) {
		t.Parallel()
		wantStatus(t, l.Do(get("body")), 200)
		l.issuer("body").revoke()
		r := get("body")
		r.Fault = "guarded body=300kB"
		a := l.Do(r)
		wantStatus(t, a, 200)
		l.wantCarried(t, a, "body-token-1", "body-token-2")
	})
	t.Run("the second 401 is denied", func(t *testing.T) {
		t.Parallel()
		i := l.issuer("second")
		wantStatus(t, l.Do(get("second")), 200)
		i.refuse()
		a := l.Do(get("second"))
		wantStatus(t, a, 401)
		l.wantCarried(t, a, "second-token-1", "second-token-2")
		wantReport(t, a, denied401("credential_rejected", "UNKNOWN", "2"))
		l.wantRetries(t, "second", 1)
		// An upstream that rejects everything drives neither the endpoint nor the upstream itself.
		for range 20 {
			a := l.Do(get("second"))
			wantStatus(t, a, 401)
			if hits := len(l.Upstream.Hits(a.ID)); hits > 2 {
				t.Errorf("%d attempts", hits)
			}
		}
		if n := i.fetches(); n > 10 {
			t.Errorf("the token endpoint was asked %d times for 21 requests", n)
		}
	})
	t.Run("a POST is denied, and the next one has another credential", func(t *testing.T) {
		t.Parallel()
		i := l.issuer("post")
		wantStatus(t, l.Do(get("post")), 200)
		i.revoke()
		a := l.Do(with(get("post"), "POST"))
		wantStatus(t, a, 401)
		l.wantCarried(t, a, "post-token-1")
		wantReport(t, a, denied401("status_not_retryable", "NOT_EXECUTED", "1"))
		wantHits(t, l.Stack, a, 1, 0)
		i.wantFetches(t, 2)
		l.wantRetries(t, "post", 0)
		for end := time.Now().Add(20 * time.Second); ; {
			a = l.Do(with(get("post"), "POST"))
			if a.Status == 200 || time.Now().After(end) {
				break
			}
		}
		wantStatus(t, a, 200)
		l.wantCarried(t, a, "post-token-2")
	})
	t.Run("a PUT is denied by default", func(t *testing.T) {
		t.Parallel()
		wantStatus(t, l.Do(get("put")), 200)
		l.issuer("put").revoke()
		a := l.Do(with(get("put"), "PUT"))
		wantStatus(t, a, 401)
		l.wantCarried(t, a, "put-token-1")
		wantReport(t, a, denied401("status_not_retryable", "NOT_EXECUTED", "1"))
	})
	t.Run("opened to idempotent operations", func(t *testing.T) {
		t.Parallel()
		wantStatus(t, l.Do(get("opened")), 200)
		l.issuer("opened").revoke()
		a := l.Do(with(get("opened"), "PUT"))
		wantStatus(t, a, 200)
		l.wantCarried(t, a, "opened-token-1", "opened-token-2")
		wantHits(t, l.Stack, a, 2, 1)
		a = l.Do(with(get("opened"), "POST"))
		wantStatus(t, a, 200)
	})
	t.Run("a body that cannot be sent again", func(t *testing.T) {
		t.Parallel()
		wantStatus(t, l.Do(get("oneshot")), 200)
		l.issuer("oneshot").revoke()
		r := get("oneshot")
		r.Body = strings.Repeat("x", 2<<20)
		a := l.Do(r)
		wantStatus(t, a, 401)
		wantReport(t, a, denied401("body_not_replayable", "NOT_EXECUTED", "1"))
		wantHits(t, l.Stack, a, 1, 0)
		l.wantRetries(t, "oneshot", 0)
	})
	t.Run("a client's own credential never arrives", func(t *testing.T) {
		t.Parallel()
		r := get("client")
		r.Header = []string{"authorization: Bearer clients", "Authorization: Basic Y2xpZW50OnM="}
		a := l.Do(r)
		wantStatus(t, a, 200)
		l.wantCarried(t, a, "client-token-1")
	})
	t.Run("50 at once cause one refresh", func(t *testing.T) {
		t.Parallel()
		i := l.issuer("crowd")
		wantStatus(t, l.Do(get("crowd")), 200)
		i.revoke()
		i.plays(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(500 * time.Millisecond) // so that they meet
			i.answer(w, 3600)
		})
		var crowd sync.WaitGroup
		for range 50 {
			crowd.Go(func() {
				a, err := l.Try(context.Background(), get("crowd"))
				if err != nil || a.Status != 200 {
					t.Errorf("status %d: %v: %+v", a.Status, err, a.Report())
				}
			})
		}
		crowd.Wait()
		i.wantFetches(t, 2)
	})
	for name, bad := range badEndpoints {
		t.Run("an endpoint: "+name, func(t *testing.T) {
			t.Parallel()
			i := l.issuer(name)
			wantStatus(t, l.Do(get(name)), 200)
			i.revoke()
			i.plays(bad.play(l))
			a := l.Do(get(name))
			wantStatus(t, a, 401) // and not the 504 of the deadline
			l.wantCarried(t, a, name+"-token-1")
			wantReport(t, a, denied401("credential_rejected", "NOT_EXECUTED", "1"))
			l.wantRetries(t, name, 0)
			if name != "too-slow" {
				for range 10 {
					wantStatus(t, l.Do(get(name)), 401)
				}
				if n := i.fetches(); n > 8 {
					t.Errorf("the token endpoint was asked %d times for 11 requests", n)
				}
			}
			// What it has goes on, and so does everything else.
			l.Upstream.Accept("Bearer " + name + "-token-1")
			wantStatus(t, l.Do(get(name)), 200)
			wantStatus(t, l.Do(stack.Request{Method: "POST", Body: "10 EUR"}), 200)
		})
	}
}

// badEndpoints are token endpoints that give no token, and how long a fetch may take.
var badEndpoints = map[string]struct {
	timeout string
	play    func(*credentialLab) http.HandlerFunc
}{
	"down": {"10s", func(*credentialLab) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}},
	"slow":     {"0.3s", hang},
	"too-slow": {"30s", hang}, // for the deadline
	"huge": {"10s", func(*credentialLab) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": 3600}`, strings.Repeat("x", 10<<20))
		}
	}},
	"redirecting": {"10s", func(l *credentialLab) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, l.server.URL+"/elsewhere", http.StatusTemporaryRedirect)
		}
	}},
	"garbage": {"10s", func(*credentialLab) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\x00\xff")) }
	}},
	"refusing": {"10s", func(*credentialLab) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error": "invalid_grant"}`, http.StatusBadRequest)
		}
	}},
	"stubborn": {"10s", func(*credentialLab) http.HandlerFunc { // the same token again
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "application/json")
			_, _ = w.Write([]byte(`{"access_token": "stubborn-token-1", "token_type": "Bearer", "expires_in": 3600}`))
		}
	}},
}

func hang(*credentialLab) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
}
