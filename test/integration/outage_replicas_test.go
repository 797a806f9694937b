package integration

import (
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// Two replicas need not know of each other: the attempts of one request may be judged by either, and
// the verdicts are right.
func TestOutageTwoReplicas(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Replicas: 2, Config: quick, Patches: []stack.Patch{stack.LabClusters()}})
	sent := stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "1"}
	exhausted := stack.Report{Verdict: "denied", Reason: "max_attempts", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "3"}
	with := func(r stack.Request, host string) stack.Request { r.Host = host + ".example"; return r }
	type row struct {
		request       stack.Request
		status        int
		report        stack.Report
		hits, effects int
		answer        stack.Answer
	}
	var rows []*row
	for range 10 {
		rows = append(rows,
			&row{request: getting("reset, ok"), status: 200, hits: 2, effects: 2},
			&row{request: getting("503"), status: 503, report: exhausted, hits: 3, effects: 3},
			&row{request: posting("reset"), status: 503, report: sent, hits: 1, effects: 1},
			&row{request: posting("503, ok"), status: 503, hits: 1, effects: 1,
				report: stack.Report{Verdict: "ambiguous", Reason: "gateway_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"}},
			&row{request: posting("500, ok"), status: 500, hits: 1, effects: 1,
				report: stack.Report{Verdict: "denied", Reason: "status_not_retryable", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"}},
			&row{request: posting("429, 429 body=100kB, ok"), status: 200, hits: 3, effects: 1},
			&row{request: posting("429, reset, ok"), status: 503, hits: 2, effects: 1,
				report: stack.Report{Verdict: "ambiguous", Reason: "sent_no_response", Evidence: "SENT_NO_RESPONSE", Execution: "UNKNOWN", Attempts: "2"}},
			&row{request: with(posting("refused, refused, ok"), "h2"), status: 200, hits: 3, effects: 1},
			&row{request: stack.Request{Method: "POST", Host: "closed.example", Body: "pay"}, status: 503,
				report: stack.Report{Verdict: "denied", Reason: "max_attempts", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "3"}},
		)
	}
	together(rows, func(r *row) { r.answer = s.Do(r.request) })
	for _, r := range rows {
		if r.answer.Status != r.status {
			t.Errorf("%s %s: status %d, want %d", r.request.Method, r.request.Fault, r.answer.Status, r.status)
		}
		wantReport(t, r.answer, r.report)
		wantHits(t, s, r.answer, r.hits, r.effects)
	}
	for i := range 2 {
		if n := s.ServiceMetric(i, "verdict_decisions_total"); n == 0 {
			t.Errorf("replica %d has decided nothing", i)
		}
	}
}

// One of two replicas dies, hangs or shuts down under serial traffic: users see nothing of it, and no
// retry is lost once Envoy's health check has noticed.
func TestOutageOneOfTwoReplicas(t *testing.T) {
	t.Parallel()
	for _, outage := range []struct {
		name    string
		disturb func(*stack.Stack)
	}{
		{"killed", func(s *stack.Stack) { s.KillService(0) }},
		{"hung", func(s *stack.Stack) { s.StopService(0) }},
		{"terminated", func(s *stack.Stack) { s.TerminateService(0) }},
	} {
		t.Run(outage.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Replicas: 2, Config: quick, ExtprocArgs: []string{"--drain-time", "3s"}})
			if lost := serialTraffic(t, s, 20); lost > 0 {
				t.Fatalf("%d retries lost before the outage", lost)
			}
			outage.disturb(s)
			begin, lost := time.Now(), 0
			for s.ClusterStat("verdict", "membership_healthy") != 1 && time.Since(begin) < 20*time.Second {
				lost += serialTraffic(t, s, 1)
			}
			t.Logf("%d retries lost in %v, until Envoy knew", lost, time.Since(begin).Round(time.Millisecond))
			if lost := serialTraffic(t, s, 50); lost > 0 {
				t.Errorf("%d of 50 retries lost after Envoy knew", lost)
			}
			if outage.name == "terminated" {
				s.WaitServiceExit(0, 20*time.Second)
			}
		})
	}
}

// Without health checks and the panic threshold, every dead or hung replica goes on costing retries.
func TestOutageOneOfTwoReplicasWithoutTheCure(t *testing.T) {
	t.Parallel()
	verdict := stack.Cluster("verdict")
	s := start(t, stack.Options{Replicas: 2, Config: quick, Patches: []stack.Patch{stack.NewPatch("plain round robin", stack.Set(verdict+"/lb_policy", "ROUND_ROBIN"),
		stack.Remove(verdict+"/health_checks"), stack.Remove(verdict+"/common_lb_config"))}})
	s.KillService(0)
	time.Sleep(2 * time.Second) // a health check would have noticed by now
	if lost := serialTraffic(t, s, 20); lost == 0 {
		t.Error("no retry lost: nothing to cure")
	} else {
		t.Logf("%d of 20 retries lost", lost)
	}
}

// serialTraffic sends n requests, one after the other, whose first attempt fails, and counts those that
// were not retried. The user sees an answer of the upstream each time.
func serialTraffic(t *testing.T, s *stack.Stack, n int) (lost int) {
	t.Helper()
	for range n {
		a := s.Do(getting("503 header:x-own=1, ok header:x-own=1"))
		hits := len(s.Upstream.Hits(a.ID))
		if a.Header.Get("X-Own") != "1" || !(a.Status == 200 && hits == 2 || a.Status == 503 && hits == 1) {
			t.Errorf("status %d after %d hits: %v", a.Status, hits, a.Header)
		}
		if hits == 1 {
			lost++
		}
	}
	return lost
}

// At SIGTERM the waits that fit run on, health checks are told at once, and traffic never fails.
func TestOutageShutdown(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{ExtprocArgs: []string{"--drain-time", "6s"}})
	r := posting("429 body=100kB retry-after=3, ok")
	answered := make(chan stack.Answer, 1)
	go func() { answered <- s.Do(r) }()
	waitFor(t, "the answer is held", func() bool { return s.ServiceMetric(0, "verdict_waiting") == 1 })
	s.TerminateService(0)
	s.WaitHealthy(0)
	if n := s.ServiceMetric(0, "verdict_waiting"); n != 1 {
		t.Errorf("%v answers are held when Envoy knows", n)
	}
	for {
		select {
		case a := <-answered:
			if a.Status != 200 || a.Elapsed < 3*time.Second {
				t.Errorf("the wait: status %d after %v, report %+v", a.Status, a.Elapsed, a.Report())
			}
			wantHits(t, s, a, 2, 1)
			if code := s.WaitServiceExit(0, 20*time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
			serialTraffic(t, s, 5)
			return
		default:
			serialTraffic(t, s, 1)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
