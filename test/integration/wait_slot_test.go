package integration

import (
	"fmt"
	"sync"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// failedAnswers are what the body of a failed answer can do while Verdict lets the backoff pass.
var failedAnswers = []failedAnswer{
	{name: "none", fault: "429 body=0"},
	{name: "small", fault: "429"},
	{name: "small, chunked", fault: "429 chunked"},
	{name: "64 KiB - 1", fault: "429 body=65535"},
	{name: "64 KiB + 1", fault: "429 body=65537 chunked"},
	{name: "300 kB", fault: "429 body=300kB"},
	{name: "1 MB", fault: "429 body=1MB"},
	{name: "2 MB", fault: "429 body=2MB", tooLarge: true, maybe: true, size: 2e6},
	{name: "8 MB", fault: "429 body=8MB", tooLarge: true, size: 8e6},
	{name: "8 MB, chunked", fault: "429 body=8MB chunked", tooLarge: true, size: 8e6},
	{name: "trickling, announced", fault: "trickle:429 body=1000 piece=100 every=30ms"},
	{name: "trickling, chunked", fault: "trickle:429 body=1000 piece=100 every=30ms chunked"},
	{name: "after a pause", fault: "slow-body:429 hold=300ms"},
}

type failedAnswer struct {
	name  string
	fault string // without its Retry-After
	// tooLarge: it is not waited for, and goes to the client. maybe: where it happens to be there whole,
	// it is waited for.
	tooLarge, maybe bool
	// size of the body that goes to the client.
	size int
}

// While a failed answer waits for its retry it holds neither a connection nor a slot of the upstream:
// with one of each, another request passes.
func TestWaitHoldsNoSlot(t *testing.T) {
	t.Parallel()
	var cases []*slotCase
	var edits []stack.Edit
	for i, answer := range failedAnswers {
		for _, protocol := range []string{"h1", "h2"} {
			c := &slotCase{failedAnswer: answer, cluster: fmt.Sprintf("slot-%s-%d", protocol, i)}
			c.name += " " + protocol
			cases = append(cases, c)
			edits = append(edits, oneSlot(c.cluster, protocol))
		}
	}
	s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{stack.NewPatch("clusters with one slot", edits...)}})
	together(cases, func(c *slotCase) { c.play(t, s) })
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.other.Status != 200 || c.overflows > 0 {
				t.Errorf("the other request: status %d after %d overflows", c.other.Status, c.overflows)
			}
			wantHits(t, s, c.other, 1, 1)
			if c.tooLarge && !(c.maybe && c.waited.Status == 200) {
				wantTooLarge(t, s, c.waited, c.size)
				return
			}
			if c.hits != 1 {
				t.Errorf("the other request passed after attempt %d", c.hits)
			}
			if c.waited.Status != 200 {
				t.Errorf("status %d, report %+v", c.waited.Status, c.waited.Report())
			}
			wantHits(t, s, c.waited, 2, 1)
		})
	}
}

type slotCase struct {
	failedAnswer
	cluster       string
	waited, other stack.Answer
	// hits of the waiting request when the other one had its answer.
	hits, overflows int
}

func (c *slotCase) play(t *testing.T, s *stack.Stack) {
	r := stack.Request{Method: "POST", Host: c.cluster + ".example", Fault: c.fault + " retry-after=3, ok", Body: "pay", ID: s.NewID()}
	var waiting sync.WaitGroup
	waiting.Go(func() { c.waited = s.Do(r) })
	if _, err := s.Upstream.WaitHits(t.Context(), r.ID, 1); err != nil {
		t.Error(err)
	}
	waitFor(t, "the upstream's slot is free", func() bool { return s.ClusterStat(c.cluster, "upstream_rq_active") == 0 })
	c.other = s.Do(stack.Request{Host: c.cluster + ".example", Fault: "ok"})
	c.hits = len(s.Upstream.Hits(r.ID))
	c.overflows = s.ClusterStat(c.cluster, "upstream_rq_pending_overflow")
	waiting.Wait()
}

// errorBodyTooLarge is what the judge says when it asks for the body of a 429. It holds where it says
// nothing more.
var errorBodyTooLarge = stack.Report{Verdict: "denied", Reason: "error_body_too_large", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"}

func wantTooLarge(t *testing.T, s *stack.Stack, a stack.Answer, size int) {
	t.Helper()
	if a.Status != 429 || a.Body != string(upstream.Body(size)) {
		t.Errorf("status %d, %d bytes of body, want 429 and the upstream's %d", a.Status, len(a.Body), size)
	}
	wantReport(t, a, errorBodyTooLarge)
	wantHits(t, s, a, 1, 0)
}

// oneSlot adds a cluster and a host NAME.example that can do one thing at a time.
func oneSlot(name, protocol string) stack.Edit {
	add := stack.AddUpstream(name, protocol, `{circuit_breakers: {thresholds: [{max_connections: 1, max_requests: 1, max_pending_requests: 1}]}}`,
		`{route: {cluster: `+name+`, timeout: 8s}}`)
	if protocol == "h1" {
		return add
	}
	return func(c *stack.Config) error {
		if err := add(c); err != nil {
			return err
		}
		return speaksHTTP2(name)(c)
	}
}
