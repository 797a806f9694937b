package redis

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/budgettest"
	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

func same(s budget.Settings) func(string) budget.Settings {
	return func(string) budget.Settings { return s }
}

// raw is a connection beside the budget's.
type raw struct{ redistest.Raw }

func dial(t testing.TB, address string) raw {
	t.Helper()
	return raw{redistest.Dial(t, address)}
}

// at is a server without anything special.
func at(address string) conn.Options { return conn.Options{Addresses: []string{address}} }

var prefixes atomic.Int64

// longUp gives a prefix of its own to a budget, whose epochs look as if the server had been up for
// long: on a fresh one the reserve counts as just spent.
func (r raw) longUp() string {
	prefix := fmt.Sprintf("t%d:", prefixes.Add(1))
	for i := range shards {
		r.Do("SET", fmt.Sprintf("%s{%d}:epoch", prefix, i), r.RunID()+":1000000:1")
	}
	return prefix
}

func mustNew(t testing.TB, settings func(string) budget.Settings, o Options) *Budget {
	t.Helper()
	b, err := New(settings, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// The contract's cases say "granted now or never", so a decision may wait here for as long as a busy
// machine takes.
const patience = 5 * time.Second

func TestContract(t *testing.T) {
	for name, binary := range redistest.Binaries(t) {
		t.Run(name, func(t *testing.T) {
			address := redistest.Start(t, binary).Address
			r := dial(t, address)
			t.Run("suite", func(t *testing.T) {
				budgettest.Run(t, func(t *testing.T, s budget.Settings) budget.Budget {
					return mustNew(t, same(s), Options{
						Server: at(address), Prefix: r.longUp(), MaxUpstreams: 5, Wait: patience, Timeout: patience,
					})
				}, budgettest.Options{MaxUpstreams: 5})
			})
		})
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(memberEnv) != "" {
		memberMain()
	}
	goleak.VerifyTestMain(m)
}
