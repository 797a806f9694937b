package integration

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
	"github.com/verdictproxy/verdict/test/stack"
)

// Two Verdicts behind one Envoy, on one Redis, have one ledger: what one has judged is listed and resolved by
// way of the other, and outlives whoever entered it. While Redis is a black hole, answers are as before.
func TestRedisOneLedger(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Binary(t), "--appendonly", "yes", "--appendfsync", "always")
	s := start(t, stack.Options{Replicas: 2, Config: `budget: {backend: redis, address: "` + redis.Address + `"}` + payments})
	server := func(i int) string { return "--server=" + strings.TrimPrefix(s.ServiceAdminURL(i), "http://") }
	post := func() string {
		t.Helper()
		a := s.Do(stack.Request{Method: "POST", Target: "/charge", Fault: "reset", Body: "pay"})
		wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"})
		wantHits(t, s, a, 1, 1)
		return a.Report().AmbiguityID
	}
	list := func(i int, words ...string) string {
		out, _ := output(extproc, append([]string{"ledger", "list", server(i)}, words...)...)
		return out
	}
	judge := func(id string) int {
		t.Helper()
		for i := range 2 {
			if strings.Contains(s.ServiceLog(i), "case="+id) {
				return i
			}
		}
		t.Fatalf("nobody has judged %s", id)
		return 0
	}

	first := post()
	by := judge(first)
	other := 1 - by
	waitFor(t, "listed by way of the other", func() bool { return strings.Contains(list(other), first) })
	wantOutput(t, true, []string{`"operation":"charge"`, `"facts":`, `"rules":`}, extproc, "ledger", "get", first, server(other))
	wantOutput(t, true, []string{`"CASE_STATE_EXECUTED"`}, extproc, "ledger", "resolve", first, "executed", "--note=asked the bank", server(other))
	wantOutput(t, true, []string{`"CASE_STATE_EXECUTED"`, `"note":"asked the bank"`}, extproc, "ledger", "get", first, server(by))

	redis.Pause()
	during := []string{post(), post(), post()}
	redis.Continue()
	for i := range 2 {
		waitFor(t, "all that was entered meanwhile is listed", func() bool {
			out := list(i, "--state=open")
			return strings.Contains(out, during[0]) && strings.Contains(out, during[1]) && strings.Contains(out, during[2])
		})
	}

	by = judge(during[0])
	s.KillService(by)
	redis.Kill()
	redis.Restart()
	waitFor(t, "the other one has it, after a restart of Redis", func() bool {
		_, err := output(extproc, "ledger", "get", during[0], server(1-by))
		return err == nil
	})
	wantOutput(t, true, []string{"asked the bank"}, extproc, "ledger", "get", first, server(1-by))
}
