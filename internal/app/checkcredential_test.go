package app

import (
	"strings"
	"testing"
)

// check names the files with secrets, and reads none of them.
func TestCheckShowsCredentialSources(t *testing.T) {
	const secret = "s3cret-of-the-client"
	secretFile := file(t, secret)
	path := file(t, `upstreams:
- clusters: [a]
  credential: {oauth2: {token_url: "http://auth.internal/token", allow_http: true, client_id: me, client_secret_file: "`+secretFile+`"}}
- clusters: [b]
  policy: {max_attempts: 1}
  credential: {token_file: {path: "`+secretFile+`"}}
- clusters: [c]
  credential: {oauth2: {token_url: "http://localhost:8080/", allow_http: true, client_id: me, client_secret_file: /no/such/file}}
`)
	code, out, errors := check(t, path)
	if code != 0 || !strings.Contains(out, "client_secret_file: "+secretFile) || strings.Contains(out+errors, secret) {
		t.Errorf("exit code %d\n%s%s", code, out, errors)
	}
	for _, want := range []string{
		path + ":3:78: warning: upstreams[0].credential.oauth2.allow_http: the secret and the tokens travel in plain text",
		path + ":6:15: warning: upstreams[1].credential: is never used: max_attempts is 1",
	} {
		if !strings.Contains(errors, want) {
			t.Errorf("no %q in\n%s", want, errors)
		}
	}
	if n := strings.Count(errors, "\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, errors)
	}
}
