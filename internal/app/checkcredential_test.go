package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// TestCheckCredential: what the configuration says of credentials, and what Envoy does, must fit.
func TestCheckCredential(t *testing.T) {
	const (
		none      = "{}\n"
		tokenFile = "upstreams: [{clusters: [app], credential: {first_attempts: %t, token_file: {path: /run/token}}}]\n"
		oauth2    = "upstreams: [{clusters: [app], credential: {oauth2: {token_url: 'https://sso.example/token', client_id: a, client_secret_file: /run/secret}}}]\n"
	)
	render := func(patches ...stack.Patch) string {
		text, err := stack.Render(nil, patches...)
		if err != nil {
			t.Fatal(err)
		}
		return file(t, string(text))
	}
	plain, err := filepath.Abs(hopYAML)
	if err != nil {
		t.Fatal(err)
	}
	later := render(stack.Credential(stack.FirstFromNowhere, "app"))
	first := render(stack.Credential(stack.FirstFromVerdict, "app"))
	injected := render(stack.Credential(stack.FirstFromEnvoy, "app"))
	const notOn, noFirst, goWithout, refused, notOurs = "is not on for this route", "gets no credential with the first attempts", "they would go without", "would be refused", "credential_not_ours"
	for name, test := range map[string]struct {
		config, envoy string
		code          int
		want          string // in each line
	}{
		"none":                              {none, plain, 0, ""},
		"first attempts from Verdict":       {fmt.Sprintf(tokenFile, true), first, 0, ""},
		"first attempts from Envoy":         {fmt.Sprintf(tokenFile, false), injected, 0, ""},
		"no filter":                         {fmt.Sprintf(tokenFile, false), plain, 1, notOn},
		"no source":                         {none, later, 1, refused},
		"first attempts from nowhere":       {fmt.Sprintf(tokenFile, false), later, 0, noFirst},
		"first attempts that nobody asks":   {fmt.Sprintf(tokenFile, true), later, 1, "does not see the first attempts"},
		"first attempts without":            {fmt.Sprintf(tokenFile, false), first, 1, goWithout},
		"first attempts from somebody else": {oauth2, injected, 0, notOurs},
		"clients with credentials": {fmt.Sprintf(tokenFile, true), file(t, strings.ReplaceAll(contents(t, first), "remove: authorization", "remove: x-authorization")), 1,
			"(client_credential)"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errors := check(t, file(t, test.config), "--envoy", test.envoy)
			if code != test.code || (test.want == "") != (errors == "") {
				t.Errorf("exit code %d, want %d, and lines with %q:\n%s", code, test.code, test.want, errors)
			}
			for line := range strings.Lines(errors) {
				if !strings.Contains(line, test.want) || !strings.HasPrefix(line, test.envoy+":") {
					t.Errorf("no %q in %s", test.want, line)
				}
			}
		})
	}
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
