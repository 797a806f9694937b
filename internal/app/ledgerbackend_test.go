package app

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// ambiguous is a request whose outcome is uncertain, as `extproc decide` asks.
func ambiguous(t *testing.T, p *program, path string) {
	t.Helper()
	code, out, errors := command(t, "decide", "--server="+p.admin, "--upstream=app", "--method=POST", "--path="+path, "--body=bytes", "--deadline=2s", "--stage=connection_reset", "--delivery=not_delivered")
	if code != 0 || !strings.Contains(out, "VERDICT_AMBIGUOUS") {
		t.Fatalf("exit code %d, %s%s", code, out, errors)
	}
}

// Two services on one Redis have one ledger, which outlives both; without Redis they enter all the same, and
// say of what is there that they do not know.
func TestSharedLedger(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t), "--maxmemory-policy", "noeviction")
	config := file(t, `budget: {backend: redis, address: "`+server.Address+`", key_prefix: "fleet:"}`)
	one, two := serve(t, "--drain-time=0s", "--config="+config), serve(t, "--drain-time=0s", "--config="+config)
	list := func(p *program, words ...string) (int, string) {
		code, out, errors := command(t, append([]string{"ledger", "list", "--server=" + p.admin}, words...)...)
		return code, out + errors
	}
	listed := func(p *program, path string) func() bool {
		return func() bool { _, out := list(p); return strings.Contains(out, `"path":"`+path+`"`) }
	}
	ambiguous(t, one, "/first")
	two.wait(t, "what one has entered is listed by two", listed(two, "/first"))
	_, out := list(two)
	_, id, _ := strings.Cut(out, `"caseId":"`)
	id, _, _ = strings.Cut(id, `"`)
	two.wait(t, "resolved by way of two", func() bool {
		code, out, _ := command(t, "ledger", "resolve", id, "executed", "--note=asked", "--server="+two.admin)
		return code == 0 && strings.Contains(out, "CASE_STATE_EXECUTED")
	})
	one.wait(t, "one knows what two has resolved", func() bool {
		_, out := list(one, "--state=executed")
		return strings.Contains(out, `"note":"asked"`)
	})
	metric := func(p *program, line string) func() bool {
		return func() bool { return strings.Contains(p.get(t, "/metrics"), line+"\n") }
	}
	ambiguous(t, two, "/second")
	one.wait(t, "one counts the fleet's open cases", metric(one, "verdict_ledger_open_cases 1"))

	server.Pause()
	ambiguous(t, one, "/third")
	one.wait(t, "it waits here", metric(one, "verdict_ledger_waiting_cases 1"))
	one.wait(t, "cut off", metric(one, "verdict_ledger_redis_connected 0"))
	if code, out := list(one); code == 0 || !strings.Contains(out, "Unavailable") || !strings.Contains(out, "ledger cannot be reached") {
		t.Errorf("without Redis: %d %s", code, out)
	}
	if code, _, errors := command(t, "ledger", "get", "somebody", "--server="+one.admin); code == 0 || !strings.Contains(errors, "Unavailable") {
		t.Errorf("without Redis a case that may be there is: %d %s", code, errors)
	}
	server.Continue()
	two.wait(t, "what waited is listed", listed(two, "/third"))
	one.wait(t, "connected", metric(one, "verdict_ledger_redis_connected 1"))
	if !strings.Contains(one.log.String(), "ledger's Redis does not answer") || !strings.Contains(one.log.String(), "ledger's Redis answers again") {
		t.Errorf("the log does not say so: %s", one.log)
	}

	ambiguous(t, one, "/last")
	for _, p := range []*program{one, two} {
		p.signal()
		p.wantExit(t, 0)
	}
	three := serve(t, "--drain-time=0s", "--config="+config)
	for _, path := range []string{"/first", "/second", "/third", "/last"} {
		three.wait(t, path+" is still there", listed(three, path))
	}
}
