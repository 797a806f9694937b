package redis

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/ledgertest"
	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// at is a server without anything special.
func at(address string) conn.Options { return conn.Options{Addresses: []string{address}} }

// patience is how long a call may take on a busy machine.
const patience = 10 * time.Second

var prefixes atomic.Int64

// freshPrefix gives a ledger of its own.
func freshPrefix() string { return fmt.Sprintf("t%d:", prefixes.Add(1)) }

func mustNew(t testing.TB, o Options) *Ledger {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patience
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// settle waits until all that was entered is on the server.
func settle(t testing.TB, l *Ledger) {
	t.Helper()
	ledgertest.Eventually(t, "all is on the server", func() bool {
		waiting, _ := l.Waiting()
		return waiting == 0
	})
}

func TestContract(t *testing.T) {
	for name, binary := range redistest.Binaries(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, binary)
			t.Run("suite", func(t *testing.T) {
				ledgertest.Run(t, func(t *testing.T, size int, now func() time.Time) (ledger.Ledger, func()) {
					l := mustNew(t, Options{Server: at(server.Address), Prefix: freshPrefix(), Size: size, Now: now})
					t.Cleanup(func() {
						if n := l.watchers.Len(); n != 0 {
							t.Errorf("%d watchers are left", n)
						}
					})
					return l, func() { settle(t, l) }
				})
			})
		})
	}
}
