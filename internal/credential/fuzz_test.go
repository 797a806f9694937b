package credential

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// ownWords are all errors that an endpoint's answer can cause.
var ownWords = regexp.MustCompile(`^(the endpoint('s answer (is not application/json|is not what RFC 6749 section 5.1 asks for|broke off|has more than 65536 bytes)| answered [0-9]{3}(, [a-z_]+)?| redirects, and follow_redirects is off)` +
	`|the connection to the endpoint broke, or what it sent is not HTTP` +
	`|the token('s type is not bearer| is empty| has expired already| has more than 16384 bytes| has a character that does not belong in a header))$`)

// FuzzAnswer: whatever an endpoint answers, there is a token that is one member of a header's value and
// lives for a day at most, or an error in this package's own words.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		goodAnswer, "", "{}", "null", "[]", `{"access_token":"a\r\nb"}`, `{"access_token":"a","expires_in":-9223372036854775808}`,
		`{"access_token":"a","expires_in":"1e9"}`, `{"ACCESS_TOKEN":"a","token_type":"MAC"}`, `{"error":"invalid_client"}`, `{"access_token":"a"}{`,
	} {
		for _, code := range []int{200, 204, 302, 401, 999} {
			f.Add(code, "application/json", body)
		}
	}
	f.Add(200, "application/json; charset=utf-8", goodAnswer)
	f.Add(200, "application/x-www-form-urlencoded", "access_token=a&expires_in=1")
	f.Add(200, "\x00", goodAnswer)
	type answer struct {
		code       int
		kind, body string
	}
	var next answer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", next.kind)
		w.WriteHeader(next.code)
		w.Write([]byte(next.body))
	}))
	f.Cleanup(server.Close)
	path := f.TempDir() + "/secret"
	writeTo(f, path, clientSecret)
	settings := &retryv1.OAuth2{TokenUrl: server.URL, ClientId: "me", ClientSecretFile: path, Timeout: durationpb.New(patience)}
	grants := &oauth2Grants{settings: settings, scheme: "Bearer", marks: newMarks("app", settings)}
	f.Fuzz(func(t *testing.T, code int, kind, body string) {
		if code < 200 || code > 999 {
			return
		}
		next = answer{code, kind, body}
		g, err := grants.fetch(t.Context())
		if err != nil {
			if !ownWords.MatchString(err.Error()) {
				t.Errorf("%v", err)
			}
			return
		}
		if g.token == "" || len(g.token) > maxToken || strings.ContainsFunc(g.token, func(c rune) bool { return c <= ' ' || c > '~' || c == ',' }) {
			t.Errorf("token %q", g.token)
		}
		if g.lifetime <= 0 || g.lifetime > 24*time.Hour || g.renew <= 0 || g.renew > 24*time.Hour {
			t.Errorf("renewed after %v, lives for %v", g.renew, g.lifetime)
		}
		if code > 299 {
			t.Errorf("a token with status %d", code)
		}
	})
}
