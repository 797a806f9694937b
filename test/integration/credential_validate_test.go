package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// envoy/hop.yaml with the additions of envoy/credential.yaml is accepted without a word of complaint.
func TestEnvoyAcceptsCredential(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]stack.FirstAttempts{
		"none": stack.FirstFromNowhere, "from Verdict": stack.FirstFromVerdict, "from Envoy": stack.FirstFromEnvoy,
	} {
		for _, version := range []string{stack.EnvoyVersion, stack.OldestEnvoy} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				patches := []stack.Patch{stack.Credential(first, "app")}
				if first == stack.FirstFromEnvoy {
					patches = append(patches, injectorOf(version, tokenSecret(t, "T1")))
				}
				file := filepath.Join(t.TempDir(), "envoy.yaml")
				text, err := stack.Render(nil, patches...)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, text, 0o600); err != nil {
					t.Fatal(err)
				}
				if log := validate(t, version, file); len(log) > 0 {
					t.Errorf("complaints:\n%s", strings.Join(log, "\n"))
				}
			})
		}
	}
}

// tokenSecret writes a token file, and beside it the file by which Envoy finds it. It returns the latter's
// path; the token is in the file "token" of the same folder.
func tokenSecret(t *testing.T, token string) string {
	t.Helper()
	dir := t.TempDir()
	writeToken(t, dir, token)
	path := filepath.Join(dir, "token-sds.yaml")
	text := `resources: [{"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: token, generic_secret: {secret: {filename: ` +
		filepath.Join(dir, "token") + `, watched_directory: {path: ` + dir + `}}}}]`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeToken replaces the token file as a whole: Envoy looks for files that are moved there.
func writeToken(t *testing.T, dir, token string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
}

// injectorOf is what an operator of Envoy's credential injector changes. Envoy 1.36 knows no prefix.
func injectorOf(version, secret string) stack.Patch {
	generic := stack.DelegatedConfig("attempts", "credential-injector") + "/credential/typed_config"
	edits := []stack.Edit{
		stack.Set("node", "{id: envoy, cluster: hop}"),
		stack.Set(generic+"/credential/sds_config/path_config_source/path", secret),
	}
	if strings.HasPrefix(version, "1.36.") {
		edits = append(edits, stack.Remove(generic+"/header_value_prefix"))
	}
	return stack.NewPatch("the token's file", edits...)
}
