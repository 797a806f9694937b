package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// Two services on one Redis: one budget, metrics, a log line while Redis is away, and a start without it.
func TestSharedBudget(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t), "--maxmemory-policy", "allkeys-lru")
	file := filepath.Join(t.TempDir(), "verdict.yaml")
	text := `
budget: {backend: redis, address: "` + server.Address + `"}
defaults: {budget: {ratio: 0.5, min_retries_per_second: 0, interval: 60s}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	one, two := serve(t, "--config="+file), serve(t, "--config="+file)
	if !strings.Contains(one.log.String(), "set maxmemory-policy noeviction") {
		t.Errorf("nobody warns of the evictions: %s", one.log)
	}
	ask := func(p *program, words ...string) bool {
		var out buffer
		args := append([]string{"budget"}, words...)
		return Run(t.Context(), append(args, "--server="+p.admin), &out, &out) == 0
	}
	if !ask(one, "deposit", "u", "4") {
		t.Fatal("no deposit")
	}
	one.wait(t, "two gets what was earned at one", func() bool { return ask(two, "withdraw", "u") })
	one.wait(t, "one gets the other token", func() bool { return ask(one, "withdraw", "u") })
	if ask(one, "withdraw", "u") || ask(two, "withdraw", "u") {
		t.Error("four first attempts at 0.5 paid for three retries")
	}
	metric := func(p *program, line string) func() bool {
		return func() bool { return strings.Contains(p.get(t, "/metrics"), line+"\n") }
	}
	one.wait(t, "connected", metric(one, "verdict_budget_redis_connected 1"))

	server.Kill()
	one.wait(t, "cut off", func() bool {
		ask(one, "deposit", "u", "2")
		return metric(one, "verdict_budget_redis_connected 0")()
	})
	one.wait(t, "paid by itself", func() bool {
		ask(one, "deposit", "u", "2") // those that were on their way when Redis ended do not pay
		return ask(one, "withdraw", "u")
	})
	if !strings.Contains(one.log.String(), "Redis does not answer") {
		t.Errorf("the log does not say so: %s", one.log)
	}
	three := serve(t, "--config="+file)
	server.Restart()
	one.wait(t, "connected again", metric(one, "verdict_budget_redis_connected 1"))
	three.wait(t, "connected, after a start without Redis", metric(three, "verdict_budget_redis_connected 1"))
}
