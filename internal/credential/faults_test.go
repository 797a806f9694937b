package credential

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// hang answers nothing more until the client or the test has gone.
func hang(t *testing.T) http.HandlerFunc {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // from here on the server sees the client leave
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { issue(w, body) }
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// raw answers with bytes of its own.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		io.WriteString(conn, text)
		conn.Close()
	}
}

const goodAnswer = `{"access_token":"good","token_type":"bearer","expires_in":600}`

func padded(size int) string { return goodAnswer + strings.Repeat(" ", size-len(goodAnswer)) }

// Whatever an endpoint does: there is an error that says it, one line in the log, no second request at
// once, and a credential as soon as the endpoint is well again.
func TestEndpointFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		more   string // of the configuration
		result string
		text   string
	}{
		{"slow", hang(t), ", timeout: 0.2s", resultTimeout, "did not answer in time"},
		{"hangs in the body", func(w http.ResponseWriter, r *http.Request) {
			issue(w, goodAnswer[:20])
			w.(http.Flusher).Flush()
			hang(t)(w, r)
		}, ", timeout: 0.3s", resultTimeout, "did not answer in time"},
		{"cut off in the body", raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"), "", resultUnreachable, "broke off"},
		{"cut off in the header", raw("HTTP/1.1 200 OK\r\nContent-"), "", resultUnreachable, "broke"},
		{"no answer", raw(""), "", resultUnreachable, "broke"},
		{"not HTTP", raw("220 smtp.example ESMTP\r\n"), "", resultUnreachable, "not HTTP"},
		{"huge body", says(padded(maxAnswer + 1)), "", resultTooLarge, "more than 65536 bytes"},
		{"endless body", func(w http.ResponseWriter, _ *http.Request) {
			for w.Header().Set("Content-Type", "application/json"); ; {
				if _, err := io.WriteString(w, strings.Repeat(" ", 4096)); err != nil {
					return
				}
			}
		}, "", resultTooLarge, "more than 65536 bytes"},
		{"huge error", status(500, padded(maxAnswer+1)), "", resultTooLarge, "more than 65536 bytes"},
		{"huge header", raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX: " + strings.Repeat("x", 2*maxAnswer) + "\r\n\r\n" + goodAnswer), "", resultUnreachable, "not HTTP"},
		{"our client refused", status(401, `{"error":"invalid_client","error_description":"`+clientSecret+`"}`), "", resultRefused, "answered 401, invalid_client"},
		{"a word that is none of OAuth's", status(400, `{"error":"`+clientSecret+`"}`), "", resultRefused, "answered 400"},
		{"an error with 200", says(`{"error":"invalid_scope","access_token":"x"}`), "", resultRefused, "answered 200, invalid_scope"},
		{"down for maintenance", status(503, "<html>"), "", resultRefused, "answered 503"},
		{"a redirect without a place", status(302, "{}"), "", resultRefused, "answered 302"},
		{"garbage", says("\x00\x01]"), "", resultInvalid, "section 5.1"},
		{"nothing", says(""), "", resultInvalid, "section 5.1"},
		{"no content", status(204, ""), "", resultInvalid, "section 5.1"},
		{"a list", says("[]"), "", resultInvalid, "section 5.1"},
		{"null", says("null"), "", resultInvalid, "section 5.1"},
		{"deep", says(strings.Repeat("[", maxAnswer)), "", resultInvalid, "section 5.1"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, goodAnswer)
		}, "", resultInvalid, "not application/json"},
		{"a form", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-www-form-urlencoded")
			io.WriteString(w, "access_token=good&expires_in=9223372036854775807")
		}, "", resultInvalid, "not application/json"},
		{"no token", says(`{"token_type":"bearer"}`), "", resultInvalid, "section 5.1"},
		{"a token that is no text", says(`{"access_token":{"a":1}}`), "", resultInvalid, "section 5.1"},
		{"a line break in the token", says(`{"access_token":"a\r\nx-admin: 1"}`), "", resultInvalid, "does not belong in a header"},
		{"two members in the token", says(`{"access_token":"a,b"}`), "", resultInvalid, "does not belong in a header"},
		{"a blank in the token", says(`{"access_token":"a b"}`), "", resultInvalid, "does not belong in a header"},
		{"a token beyond ASCII", says(`{"access_token":"\u00e9"}`), "", resultInvalid, "does not belong in a header"},
		{"a long token", says(`{"access_token":"` + strings.Repeat("x", maxToken+1) + `"}`), "", resultInvalid, "more than 16384 bytes"},
		{"another token type", says(`{"access_token":"x","token_type":"mac"}`), "", resultInvalid, "not bearer"},
		{"a token that is dead", says(`{"access_token":"x","expires_in":-1}`), "", resultInvalid, "expired already"},
		{"a life that is no number", says(`{"access_token":"x","expires_in":"soon"}`), "", resultInvalid, "section 5.1"},
		{"half a second", says(`{"access_token":"x","expires_in":0.5}`), "", resultInvalid, "section 5.1"},
		{"a life beyond any number", says(`{"access_token":"x","expires_in":99999999999999999999}`), "", resultInvalid, "section 5.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t)
			e.answers(test.answer)
			config := oauth(e.URL, test.more)
			if test.more != "" {
				config = strings.Replace(config, ", timeout: 20s", "", 1)
			}
			f := start(t, config)
			s := f.Source("app")
			_, err := s.Current(t.Context())
			if got := resultOf(err); err == nil || got != test.result || !strings.Contains(err.Error(), test.text) {
				t.Fatalf("%v (%s), want %q (%s)", err, got, test.text, test.result)
			}
			_, again := s.Current(t.Context())
			if !errors.Is(again, ErrBackingOff) && !strings.Contains(test.more, "timeout") {
				t.Errorf("again at once: %v", again)
			}
			if n := e.requests.Load(); n != 1 && !strings.Contains(test.more, "timeout") {
				t.Errorf("%d requests, want 1", n)
			}
			eventually(t, "a line that says it", func() bool { return strings.Contains(f.log.String(), test.text) })
			e.answers(says(goodAnswer))
			forgive(s)
			eventually(t, "a credential", func() bool {
				now, err := s.Current(t.Context())
				return err == nil && now == "Bearer good"
			})
			eventually(t, "a line that it works again", func() bool { return strings.Contains(f.log.String(), "works again") })
			if n := strings.Count(f.log.String(), "\n"); n != 2 {
				t.Errorf("%d lines, want one for each change:\n%s", n, f.log)
			}
			if printed := fmt.Sprint(err, again, f.log); strings.Contains(printed, clientSecret) {
				t.Errorf("the secret is in\n%s", printed)
			}
		})
	}
}

func TestEndpointDown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for url, text := range map[string]string{
		"http://" + l.Addr().String():   "connection refused",
		"http://no-such-host.invalid/x": "cannot be resolved",
	} {
		_, err = start(t, oauth(url, "")).Source("app").Current(t.Context())
		if resultOf(err) != resultUnreachable || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// What a failed refresh leaves: the old token, for as long as it lives.
func TestFailedRefreshKeepsTheToken(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	s := start(t, oauth(e.URL, "")).Source("app")
	first := current(t, s)
	e.answers(status(500, ""))
	if err := refresh(t, s, first); resultOf(err) != resultRefused {
		t.Errorf("%v", err)
	}
	if err := refresh(t, s, first); !errors.Is(err, ErrBackingOff) {
		t.Errorf("%v", err)
	}
	if current(t, s) != first || s.Recognize(first) != Latest {
		t.Error("it has gone")
	}
	if n := e.requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := newEndpoint(t)
	for _, test := range []struct {
		name   string
		follow bool
		answer http.HandlerFunc
		text   string
	}{
		{"off", false, nil, "follow_redirects is off"},
		{"elsewhere", true, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "another scheme, host or port"},
		{"to itself for ever", true, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again", http.StatusPermanentRedirect)
		}, "more than 3 times"},
		{"as a GET", true, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/get", http.StatusSeeOther) }, "a GET"},
		{"to no URL", true, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://[")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "section 5.1"},
		{"on", true, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t)
			e.answers(func(w http.ResponseWriter, r *http.Request) {
				_, password, _ := r.BasicAuth()
				switch {
				case r.URL.Path == "/token" && r.PostFormValue("grant_type") == "client_credentials" && password == clientSecret:
					issue(w, goodAnswer)
				case test.answer != nil:
					test.answer(w, r)
				default:
					http.Redirect(w, r, "/token", http.StatusTemporaryRedirect)
				}
			})
			more := ""
			if test.follow {
				more = ", follow_redirects: true"
			}
			authorization, err := start(t, oauth(e.URL, more)).Source("app").Current(t.Context())
			if test.text == "" {
				if err != nil || authorization != "Bearer good" {
					t.Errorf("%v", err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("%v, want %q", err, test.text)
			}
		})
	}
	t.Cleanup(func() {
		if n := elsewhere.requests.Load(); n != 0 {
			t.Errorf("another host was told the secret %d times", n)
		}
	})
}

func TestLifetimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]float64{ // seconds until the token is not handed out any more
		``:                                  {290, 300},
		`,"expires_in":0`:                   {290, 300},
		`,"expires_in":null`:                {290, 300},
		`,"expires_in":"3600"`:              {3500, 3600},
		`,"expires_in":3600`:                {3500, 3600},
		`,"expires_in":100`:                 {80, 96},
		`,"expires_in":2147483648`:          {86300, 86400},
		`,"expires_in":9000000000000000000`: {86300, 86400},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t)
			e.answers(says(`{"access_token":"x"` + text + `}`))
			s := start(t, oauth(e.URL, "")).Source("app")
			current(t, s)
			s.mu.Lock()
			defer s.mu.Unlock()
			lifetime, renewal := s.latest.expires.Sub(s.latest.issued).Seconds(), s.latest.renew.Sub(s.latest.issued).Seconds()
			if lifetime < want[0]-patience.Seconds() || lifetime > want[1] {
				t.Errorf("it lives for %v s, want %v", lifetime, want)
			}
			if renewal >= lifetime || renewal < lifetime*0.7-patience.Seconds() {
				t.Errorf("it lives for %v s and is renewed after %v s", lifetime, renewal)
			}
		})
	}
}

// What the endpoint is told.
func TestRequest(t *testing.T) {
	t.Parallel()
	for _, style := range []string{"header", "body"} {
		e := newEndpoint(t)
		told := make(chan *http.Request, 1)
		e.answers(func(w http.ResponseWriter, r *http.Request) {
			r.ParseForm()
			told <- r
			issue(w, goodAnswer)
		})
		s := start(t, oauth(e.URL+"/t?v=1", `, auth_style: `+style+`, scopes: [a, b], endpoint_params: [{name: audience, value: "x y"}, {name: resource, value: r1}, {name: resource, value: r2}]`)).Source("app")
		current(t, s)
		r := <-told
		user, password, basic := r.BasicAuth()
		if style == "body" {
			user, password = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
		} else if r.PostForm.Has("client_secret") {
			t.Error("the secret is in the body too")
		}
		if user != "me" || password != clientSecret || basic != (style == "header") {
			t.Errorf("%s: %q, %q, %v", style, user, password, basic)
		}
		got := fmt.Sprint(r.Method, r.URL, r.PostForm["grant_type"], r.PostForm["scope"], r.PostForm["audience"], r.PostForm["resource"])
		if want := "POST/t?v=1[client_credentials][a b][x y][r1 r2]"; strings.ReplaceAll(got, " [", "[") != want && got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	}
}

func TestScheme(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	e.answers(says(`{"access_token":"x","token_type":"dpop"}`))
	s := start(t, strings.Replace(oauth(e.URL, ""), "credential: {", "credential: {scheme: DPoP, ", 1)).Source("app")
	if got := current(t, s); got != "DPoP x" {
		t.Errorf("%q", got)
	}
}
