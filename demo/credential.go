package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// tokenFile is the credential that Verdict holds for the upstream `credential`: a file that somebody else
// keeps current.
type tokenFile string

func newTokenFile(dir string) (tokenFile, error) {
	f := tokenFile(filepath.Join(dir, "token"))
	return f, f.write("the-first-token")
}

func (f tokenFile) write(token string) error {
	next := string(f) + ".next"
	if err := os.WriteFile(next, []byte(token), 0o600); err != nil {
		return err
	}
	return os.Rename(next, string(f))
}

// renew replaces the token while the first attempt is under way.
func (f tokenFile) renew() error {
	time.Sleep(100 * time.Millisecond)
	return f.write("the-second-token")
}

// config is added to envoy/verdict.yaml.
func (f tokenFile) config() string {
	return fmt.Sprintf("- clusters: [credential]\n  credential: {first_attempts: true, token_file: {path: %q}}\n", string(f))
}

// credentialPatches add the upstream and what envoy/credential.yaml says.
func credentialPatches() []stack.Patch {
	return []stack.Patch{
		stack.NewPatch("an upstream with a credential", stack.AddUpstream("credential", "h1", "", "")),
		stack.Credential(stack.FirstFromVerdict, "credential"),
	}
}

// withCredential are played against the upstream whose credential Verdict holds, and against one whose it
// does not.
func withCredential(renew func() error) []scenario {
	return []scenario{
		{"GET, 401 to Verdict's credential", "401 to the old one; then 200", at("credential", get("/", "401 delay=0.6s,ok")),
			func(func() error) error { return renew() }, retried(received, 2).executed(1)},
		{"GET, 401 to a client's credential", "answers 401",
			stack.Request{Target: "/", Fault: "401", Header: []string{"authorization: Bearer the-clients"}}, nil, ended(401, received, "denied", "credential_not_ours").executed(0)},
	}
}
