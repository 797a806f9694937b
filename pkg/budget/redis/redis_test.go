package redis

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/budgettest"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

func same(s budget.Settings) func(string) budget.Settings {
	return func(string) budget.Settings { return s }
}

// raw is a connection beside the budget's, for what a person may do to a server.
type raw struct {
	t      testing.TB
	client rueidis.Client
}

func dial(t testing.TB, address string) raw {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address}, DisableCache: true, ForceSingleClient: true, DisableRetry: true, PipelineMultiplex: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return raw{t, c}
}

func (r raw) do(words ...string) any {
	r.t.Helper()
	v, err := r.client.Do(context.Background(), r.client.B().Arbitrary(words...).Build()).ToAny()
	if err != nil && !rueidis.IsRedisNil(err) {
		r.t.Fatalf("%v: %v", words, err)
	}
	return v
}

func (r raw) runID() string {
	r.t.Helper()
	_, id, _ := strings.Cut(r.do("INFO", "server").(string), "run_id:")
	id, _, _ = strings.Cut(id, "\r")
	return id
}

var prefixes atomic.Int64

// longUp gives a prefix of its own to a budget, whose epochs look as if the server had been up for
// long: on a fresh one the reserve counts as just spent.
func (r raw) longUp() string {
	r.t.Helper()
	prefix := fmt.Sprintf("t%d:", prefixes.Add(1))
	for i := range shards {
		r.do("SET", fmt.Sprintf("%s{%d}:epoch", prefix, i), r.runID()+":1000000:1")
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
						Addresses: []string{address}, Prefix: r.longUp(), MaxUpstreams: 5, Wait: patience, Timeout: patience,
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
