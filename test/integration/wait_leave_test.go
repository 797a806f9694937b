package integration

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// A client that leaves during a wait ends it: its request is not sent again, its token goes back, and
// nothing of it stays.
func TestWaitClientLeaves(t *testing.T) {
	t.Parallel()
	options := stack.Options{Config: `{upstreams: [{clusters: [closed], policy: {backoff: {base: 6s, max: 6s, jitter: decorrelated}}}]}`,
		Patches: []stack.Patch{stack.LabClusters()}}
	log := withTokenLog(t, &options)
	s := start(t, options)

	// The client is told when to leave, and does, in one of four ways.
	ways := map[string]func(stack.Request) (leave func()){
		"close": func(r stack.Request) func() { return leaveByContext(s.Try, r) },
		"RST_STREAM": func(r stack.Request) func() {
			return leaveByContext(s.TryH2, r)
		},
		"RST": func(r stack.Request) func() {
			conn := sendRaw(t, s, r)
			return func() { _ = conn.SetLinger(0); _ = conn.Close() }
		},
		"half-close": func(r stack.Request) func() {
			conn := sendRaw(t, s, r)
			return func() { _ = conn.CloseWrite() }
		},
	}
	// Where the wait is held: on the headers of an answer without a body or of Envoy's own, or on the body.
	answers := map[string]stack.Request{
		"without a body": {Method: "POST", Fault: "429 body=0 retry-after=6, ok", Body: "pay"},
		"with a body":    {Method: "POST", Fault: "429 body=100kB retry-after=6, ok", Body: "pay"},
		"h2 with a body": {Method: "POST", Host: "h2.example", Fault: "429 body=100kB retry-after=6, ok", Body: "pay"},
		"Envoy's own":    {Method: "POST", Host: "closed.example", Body: "pay"},
	}
	begin := time.Now()
	ids := map[string]string{}
	var leaving []func()
	for how, ask := range ways {
		for what, r := range answers {
			r.ID = s.NewID()
			ids[fmt.Sprintf("%s, %s", how, what)] = r.ID
			leaving = append(leaving, ask(r))
		}
	}
	waitFor(t, "all wait", func() bool { return s.ServiceMetric(0, "verdict_waiting") == float64(len(leaving)) })
	for upstream, n := range map[string]int{"app": 8, "app-h2": 4, "closed": 4} {
		log.want(t, upstream, n, 0)
	}
	for _, leave := range leaving {
		leave()
	}
	waitFor(t, "nobody waits", func() bool { return s.ServiceMetric(0, "verdict_waiting") == 0 })
	if took := time.Since(begin); took > 6*time.Second {
		t.Fatalf("the waits may have ended by themselves after %v", took)
	}
	if got := s.ServiceMetric(0, "verdict_waits_abandoned_total"); got != float64(len(leaving)) {
		t.Errorf("%v waits were abandoned, want %d", got, len(leaving))
	}
	for upstream, n := range map[string]int{"app": 8, "app-h2": 4, "closed": 4} {
		log.want(t, upstream, n, n)
	}
	for _, gauge := range []string{"http.outer.downstream_rq_active", "http.attempts.downstream_rq_active", "cluster.attempts.upstream_rq_active",
		"cluster.app.upstream_rq_active", "cluster.app-h2.upstream_rq_active", "cluster.closed.upstream_rq_pending_active"} {
		waitFor(t, gauge+" is 0", func() bool { return s.EnvoyStat(gauge) == 0 })
	}
	// What remains open to Verdict is the access log.
	waitFor(t, "no stream to Verdict", func() bool { return s.ClusterStat("verdict", "upstream_rq_active") <= 1 })

	time.Sleep(time.Until(begin.Add(10 * time.Second))) // beyond the longest of these waits
	for name, id := range ids {
		if n := len(s.Upstream.Hits(id)); n > 1 {
			t.Errorf("%s: %d hits", name, n)
		}
	}
	if n := s.ClusterStat("closed", "upstream_cx_connect_fail"); n != 4 {
		t.Errorf("connected %d times, want 4", n)
	}
	if n := s.ClusterStat("attempts", "upstream_rq_retry"); n != 0 {
		t.Errorf("%d retries", n)
	}
}

func leaveByContext(try func(context.Context, stack.Request) (stack.Answer, error), r stack.Request) func() {
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	asking.Go(func() { _, _ = try(ctx, r) })
	return func() { cancel(); asking.Wait() }
}

// sendRaw sends a request and leaves the rest to the caller.
func sendRaw(t *testing.T, s *stack.Stack, r stack.Request) *net.TCPConn {
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if r.Host == "" {
		r.Host = "app.example"
	}
	_, err = fmt.Fprintf(conn, "%s / HTTP/1.1\r\nhost: %s\r\nx-test-id: %s\r\nx-fault: %s\r\ncontent-length: %d\r\n\r\n%s",
		r.Method, r.Host, r.ID, r.Fault, len(r.Body), r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// A client that leaves before the error body is there has not cost a token.
func TestWaitClientLeavesBeforeTheWait(t *testing.T) {
	t.Parallel()
	options := stack.Options{}
	log := withTokenLog(t, &options)
	s := start(t, options)
	r := posting("slow-body:429 hold=10s, ok")
	r.ID = s.NewID()
	leave := leaveByContext(s.Try, r)
	if _, err := s.Upstream.WaitHits(t.Context(), r.ID, 1); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the judge waits for the body", func() bool { return s.ExtProcStat("attempts", "streams_started") == 1 })
	leave()
	waitFor(t, "the upstream's slot is free", func() bool { return s.ClusterStat("app", "upstream_rq_active") == 0 })
	waitFor(t, "the judge's stream has ended", func() bool { return s.ClusterStat("verdict", "upstream_rq_active") <= 1 })
	log.want(t, "app", 0, 0)
	if got := s.ServiceMetric(0, "verdict_waits_abandoned_total"); got != 0 {
		t.Errorf("%v waits were abandoned: none had begun", got)
	}
}
