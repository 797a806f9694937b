package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

func TestCredentialReplay(t *testing.T) {
	t.Parallel()
	l := startCredentials(t, stack.FirstFromVerdict, stack.Options{}, source{name: "refreshed"})
	t.Run("refreshed once and replayed once", func(t *testing.T) {
		i := l.issuer("refreshed")
		a := l.Do(get("refreshed"))
		wantStatus(t, a, 200)
		l.wantCarried(t, a, "refreshed-token-1")
		i.revoke()
		a = l.Do(get("refreshed"))
		wantStatus(t, a, 200)
		l.wantCarried(t, a, "refreshed-token-1", "refreshed-token-2")
		wantHits(t, l.Stack, a, 2, 1)
		i.wantFetches(t, 2)
	})
}
