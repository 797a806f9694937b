package memory

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, size int, now func() time.Time) (ledger.Ledger, func()) {
		l := New(size, now)
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if n := l.watchers.Len(); n != 0 {
				t.Errorf("%d watchers are left", n)
			}
		})
		return l, func() {}
	})
}

func TestDefaultSize(t *testing.T) {
	l := New(0, nil)
	for i := range ledger.DefaultSize + 1 {
		l.Enter(ledger.Entry{CaseID: fmt.Sprint(i)})
	}
	if open, lost := l.Count(); open != ledger.DefaultSize || lost != 1 {
		t.Errorf("%d open, %d lost", open, lost)
	}
}

func BenchmarkEnter(b *testing.B) {
	l := New(0, nil)
	entries := make([]ledger.Entry, 2*ledger.DefaultSize)
	for i := range entries {
		entries[i] = ledger.Entry{CaseID: fmt.Sprint(i), Upstream: "app", Path: "/pay"}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Enter(entries[i%len(entries)])
	}
}
