package credential

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
)

// spill prints everything that it is given in every way that there is.
func spill(t *testing.T, values ...any) string {
	t.Helper()
	var out bytes.Buffer
	text, asJSON := slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
			fmt.Fprintf(&out, verb+"\n", v)
			fmt.Fprintf(&out, verb+"\n", []any{v})
			fmt.Fprintf(&out, verb+"\n", struct{ inner any }{v})
		}
		text.Info("x", "v", v, "list", []any{v})
		asJSON.Info("x", "v", v, "list", []any{v})
		if encoded, err := json.Marshal(v); err == nil {
			out.Write(encoded)
		}
		if err, ok := v.(error); ok {
			for ; err != nil; err = errors.Unwrap(err) {
				fmt.Fprintf(&out, "%T %v %+v %#v\n", err, err, err, err)
			}
		}
	}
	return out.String()
}

// finds returns those of the secrets that stand in a text, in any of the spellings that a library might
// give them.
func finds(text string, secrets ...string) (found []string) {
	for _, s := range secrets {
		for _, spelling := range []string{
			s, hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))), url.QueryEscape(s),
			base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
			fmt.Sprint([]byte(s)),
		} {
			if strings.Contains(text, spelling) {
				found = append(found, s)
				break
			}
		}
	}
	return found
}

// An endpoint that throws what it was told back, in every place of its answer, brings no secret into a
// log, a metric, an error or a print.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	const leaked = "leaked-t0ken"
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + clientSecret))
	throwBack := func(r *http.Request) string {
		body, _ := io.ReadAll(r.Body)
		return strings.Join([]string{clientSecret, r.Header.Get("Authorization"), string(body), leaked}, " ")
	}
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, r *http.Request) {
			text, _ := json.Marshal(throwBack(r))
			status(400, fmt.Sprintf(`{"error":%s,"error_description":%[1]s,"error_uri":%[1]s,"access_token":%[1]s}`, text))(w, r)
		},
		"an error that is no JSON": func(w http.ResponseWriter, r *http.Request) { status(500, throwBack(r))(w, r) },
		"no JSON":                  func(w http.ResponseWriter, r *http.Request) { issue(w, throwBack(r)) },
		"another type": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", leaked+"/"+clientSecret)
			io.WriteString(w, throwBack(r))
		},
		"a bad status line": func(w http.ResponseWriter, r *http.Request) { raw("HTTP/1.1 "+throwBack(r)+"\r\n\r\n")(w, r) },
		"a bad header":      func(w http.ResponseWriter, r *http.Request) { raw("HTTP/1.1 200 OK\r\n"+throwBack(r)+"\r\n\r\n")(w, r) },
		"a bad length": func(w http.ResponseWriter, r *http.Request) {
			raw("HTTP/1.1 200 OK\r\nContent-Length: "+throwBack(r)+"\r\n\r\n")(w, r)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/?"+url.QueryEscape(throwBack(r)), http.StatusTemporaryRedirect)
		},
		"a bad redirect": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://["+throwBack(r))
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"a bad token": func(w http.ResponseWriter, r *http.Request) {
			text, _ := json.Marshal(throwBack(r))
			issue(w, fmt.Sprintf(`{"access_token":%s}`, text))
		},
		"a bad token type": func(w http.ResponseWriter, r *http.Request) {
			issue(w, `{"access_token":"`+leaked+`","token_type":"`+clientSecret+`"}`)
		},
		"a bad lifetime": func(w http.ResponseWriter, r *http.Request) {
			issue(w, `{"access_token":"`+leaked+`","expires_in":"`+clientSecret+`"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEndpoint(t)
			for _, style := range []string{"header", "body"} {
				f := start(t, oauth(e.URL, ", auth_style: "+style))
				s := f.Source("app")
				first := current(t, s)
				e.answers(answer)
				failedRefresh := refresh(t, s, first)
				if failedRefresh == nil {
					t.Fatal("no failure")
				}
				s.mu.Lock()
				s.latest.expires = s.latest.issued
				s.mu.Unlock()
				_, backingOff := s.Current(t.Context())
				eventually(t, "a line in the log", func() bool { return f.log.String() != "" })
				printed := f.log.String() + exposition(t, f) + spill(t, failedRefresh, backingOff, f.Set, s, *f.secretHolder(t))
				if found := finds(printed, clientSecret, basic, leaked, first, strings.TrimPrefix(first, "Bearer "), s.Mark(first)); found != nil {
					t.Errorf("%q stands in\n%s", found, printed)
				}
				e.answers(nil)
			}
		})
	}
}

// The same for what a token file holds, good or bad.
func TestTokenFilesStayInside(t *testing.T) {
	t.Parallel()
	path := write(t, tokenPrefix+"file")
	f := start(t, tokenFile(path))
	s := f.Source("app")
	first := current(t, s)
	writeTo(t, path, tokenPrefix+"file\x00")
	err := refresh(t, s, first)
	eventually(t, "a line in the log", func() bool { return f.log.String() != "" })
	if printed := f.log.String() + exposition(t, f) + spill(t, err, f.Set, s); err == nil || finds(printed, tokenPrefix) != nil {
		t.Errorf("%v: the token stands in\n%s", err, printed)
	}
}

// The search finds what is there, however it was printed.
func TestSpillsAreFound(t *testing.T) {
	t.Parallel()
	type careless struct{ Token string }
	for _, v := range []any{careless{clientSecret}, &careless{clientSecret}, clientSecret, []byte(clientSecret), errors.New(clientSecret)} {
		if finds(spill(t, v), clientSecret) == nil {
			t.Errorf("%T: not found", v)
		}
	}
	for _, encoded := range []string{hex.EncodeToString([]byte(clientSecret)), base64.StdEncoding.EncodeToString([]byte(clientSecret))} {
		if finds("x"+encoded+"y", clientSecret) == nil {
			t.Errorf("not found in %s", encoded)
		}
	}
	// A secret is not, even inside of a struct whose fields are not exported.
	for _, v := range []any{newSecret(clientSecret), struct{ inner secret }{newSecret(clientSecret)}, &token{authorization: newSecret(clientSecret)}} {
		if finds(spill(t, v), clientSecret) != nil {
			t.Errorf("%T: found", v)
		}
	}
}

// What is printed of a source says which one it is.
func TestPrintedSource(t *testing.T) {
	t.Parallel()
	f := start(t, tokenFile(write(t, "abc")))
	if got, want := fmt.Sprintf("%v %+v %#v", f.Set, f.Source("app"), f.Source("app")), "credential sources credential source of app credential source of app"; got != want {
		t.Errorf("%q", got)
	}
}

// secretHolder is what a careless %+v of the program's own would reach.
func (f *fixture) secretHolder(t *testing.T) *struct {
	sources *Set
	latest  *token
	copied  token
} {
	s := f.Source("app")
	s.mu.Lock()
	defer s.mu.Unlock()
	return &struct {
		sources *Set
		latest  *token
		copied  token
	}{f.Set, s.latest, *s.latest}
}

func exposition(t *testing.T, f *fixture) string {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
