package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// An outageWait is a failed answer that Verdict holds, in one of the phases. It is the upstream's own,
// which nobody labels unless the judge has asked for its body, or Envoy's own, which Envoy labels where
// nobody has judged it.
type outageWait struct {
	name    string
	request stack.Request
	status  int
	body    string // all of the upstream's own, the beginning of Envoy's own
	report  stack.Report
	// collecting: the error body has not arrived, and the judge does not hold the answer yet.
	collecting bool
	answer     stack.Answer
}

func outageWaits(s *stack.Stack, retryAfter string) []*outageWait {
	waits := []*outageWait{
		{name: "on the headers", request: posting("429 body=0 retry-after=" + retryAfter + ", ok"), status: 429},
		{name: "on the headers, h2", request: posting("429 body=0 retry-after=" + retryAfter + ", ok"), status: 429},
		{name: "on Envoy's own answer", request: stack.Request{Method: "POST", Host: "closed.example", Body: "pay"}, status: 503,
			body: "upstream connect error or disconnect/reset before headers", report: envoysWord},
		{name: "on the body", request: posting("429 body=100000 retry-after=" + retryAfter + ", ok"), status: 429, body: string(upstream.Body(100_000)), report: errorBodyTooLarge},
		{name: "on the body, h2", request: posting("429 body=100000 retry-after=" + retryAfter + ", ok"), status: 429, body: string(upstream.Body(100_000)), report: errorBodyTooLarge},
		{name: "while the body arrives", request: posting("slow-body:429 body=1000 hold=700ms retry-after=" + retryAfter + ", ok"), status: 429,
			body: string(upstream.Body(1000)), report: yesNotObeyed, collecting: true},
	}
	for _, w := range waits {
		w.request.ID = s.NewID()
		if strings.HasSuffix(w.name, ", h2") {
			w.request.Host = "h2.example"
		}
	}
	return waits
}

// interrupt lets all waits begin, disturbs Verdict, and returns when all answers are there.
func interrupt(t *testing.T, s *stack.Stack, waits []*outageWait, disturb func()) {
	t.Helper()
	held, collecting := 0.0, 0
	for _, w := range waits {
		if w.collecting {
			collecting++
		} else {
			held++
		}
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		together(waits, func(w *outageWait) { w.answer = s.Do(w.request) })
	}()
	waitFor(t, "the judge holds the answers", func() bool {
		return s.ServiceMetric(0, "verdict_waiting") >= held && s.ExtProcStat("attempts", "streams_started") == int(held)+collecting
	})
	disturb()
	<-answered
}

// Verdict dies while it holds answers, or hangs for good: the original answers reach the clients, and
// nothing is retried.
func TestOutageDuringWait(t *testing.T) {
	t.Parallel()
	for _, outage := range []struct {
		name, retryAfter, backoff string
		disturb                   func(*stack.Stack)
	}{
		{"killed", "4", "4s", func(s *stack.Stack) { s.KillService(0) }},
		{"hung", "2", "2s", func(s *stack.Stack) { s.StopService(0) }},
	} {
		t.Run(outage.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, stack.Options{Patches: []stack.Patch{stack.LabClusters()},
				Config: `{upstreams: [{clusters: [closed], policy: {backoff: {base: ` + outage.backoff + `, max: 4s, jitter: decorrelated}}}]}`})
			waits := outageWaits(s, outage.retryAfter)
			interrupt(t, s, waits, func() { outage.disturb(s) })
			for _, w := range waits {
				t.Run(w.name, func(t *testing.T) {
					if w.answer.Status != w.status || !strings.HasPrefix(w.answer.Body, w.body) || w.status == 429 && w.answer.Body != w.body {
						t.Errorf("status %d, want %d; body %.80q", w.answer.Status, w.status, w.answer.Body)
					}
					wantReport(t, w.answer, w.report)
					if hits := len(s.Upstream.Hits(w.request.ID)); hits > 1 {
						t.Errorf("%d hits", hits)
					}
					wantNothingInternal(t, w.answer)
				})
			}
			if n := s.ClusterStat("attempts", "upstream_rq_retry"); n != 0 {
				t.Errorf("%d retries", n)
			}
		})
	}
}

// Verdict stops while it holds answers and goes on in time: they are retried.
func TestOutageDuringWaitThatEndsInTime(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Patches: []stack.Patch{unwatched, stack.NewPatch("patience",
		stack.Set(stack.DelegatedConfig("attempts", "judge")+"/message_timeout", "8s"))}})
	var waits []*outageWait
	for _, w := range outageWaits(s, "3") {
		if w.request.Host != "closed.example" {
			waits = append(waits, w)
		}
	}
	interrupt(t, s, waits, func() {
		s.StopService(0)
		time.Sleep(time.Second)
		s.ContinueService(0)
	})
	for _, w := range waits {
		if w.answer.Status != 200 {
			t.Errorf("%s: status %d, report %+v", w.name, w.answer.Status, w.answer.Report())
		}
		wantHits(t, s, w.answer, 2, 1)
	}

	// The same where it stops before it is asked.
	s.StopService(0)
	r := posting("429, ok")
	r.ID = s.NewID()
	answered := make(chan stack.Answer)
	go func() { a, _ := s.Try(t.Context(), r); answered <- a }()
	if _, err := s.Upstream.WaitHits(t.Context(), r.ID, 1); err != nil {
		t.Error(err)
	}
	time.Sleep(300 * time.Millisecond)
	if hits := len(s.Upstream.Hits(r.ID)); hits != 1 {
		t.Errorf("%d hits while Verdict is stopped", hits)
	}
	s.ContinueService(0)
	a := <-answered
	if a.Status != 200 {
		t.Errorf("status %d, report %+v", a.Status, a.Report())
	}
	wantHits(t, s, a, 2, 1)
}

// A Verdict that comes back is asked again as soon as a health check has found it.
func TestOutageEnds(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick})
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"restarted", func() { s.KillService(0) }, func() { s.RestartService(0) }},
		{"continued", func() { s.StopService(0) }, func() { s.ContinueService(0) }},
	} {
		t.Run(outage.name, func(t *testing.T) {
			a := s.Do(getting("reset, ok"))
			wantHits(t, s, a, 2, 2)
			outage.begin()
			s.WaitHealthy(0)
			a = s.Do(getting("reset, ok"))
			if a.Status != 503 {
				t.Errorf("status %d", a.Status)
			}
			wantHits(t, s, a, 1, 1)
			a = s.Do(posting("reset, ok"))
			wantReport(t, a, envoysWord)
			wantHits(t, s, a, 1, 1)
			outage.end()
			s.WaitHealthy(1)
			a = s.Do(getting("reset, ok"))
			if a.Status != 200 {
				t.Errorf("status %d, report %+v", a.Status, a.Report())
			}
			wantHits(t, s, a, 2, 2)
		})
	}
}
