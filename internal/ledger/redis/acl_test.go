package redis

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/ledgertest"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// A user with no more than the commands that the package's comment names, on keys with the prefix, will do.
func TestNarrowUser(t *testing.T) {
	t.Parallel()
	comment, err := os.ReadFile("redis.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(comment), "The user needs the commands ")
	text, _, _ = strings.Cut(text, ", on")
	rights := []string{"ACL", "SETUSER", "narrow", "reset", "on", ">secret", "~fleet:*"}
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '\'' }) {
		rights = append(rights, "+"+strings.ToLower(name))
	}
	if len(rights) != 7+17 {
		t.Fatalf("%q", rights)
	}
	for name, binary := range redistest.Binaries(t) {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, binary)
			raw := redistest.Dial(t, server.Address)
			raw.Do(rights...)
			file := filepath.Join(t.TempDir(), "password")
			if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			o := Options{Server: at(server.Address), Prefix: "fleet:", Size: 2}
			o.Server.Username, o.Server.PasswordFile = "narrow", file
			l := mustNew(t, o)
			enter(l, "a", 3)
			settle(t, l)
			if _, err := l.Resolve(t.Context(), "a2", executed, ""); err != nil {
				t.Error(err)
			}
			enter(l, "a", 2)
			settle(t, l)
			if _, err := l.Get(t.Context(), "a0"); err != nil {
				t.Error(err)
			}
			var told atomic.Int64
			enough := errors.New("enough")
			watching := make(chan error, 1)
			go func() {
				watching <- l.Watch(t.Context(), ledger.Filter{}, func(*ledger.Case, uint64) error { told.Add(1); return enough })
			}()
			n := 0
			ledgertest.Eventually(t, "somebody watches", func() bool {
				n++
				l.Enter(ledger.Entry{CaseID: "w", Attempts: n})
				return told.Load() > 0
			})
			if err := <-watching; err != enough {
				t.Error(err)
			}
			if page, err := l.List(t.Context(), ledger.Filter{}, 0, 10); err != nil || len(page.Cases) != 2 {
				t.Errorf("%q, %v", ledgertest.IDs(page.Cases), err)
			}
			if n := raw.Do("HLEN", "fleet:ledger:cases"); n != int64(2) {
				t.Errorf("%v cases are kept", n)
			}
		})
	}
}
