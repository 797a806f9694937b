package integration

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

var bodyHosts = []string{"app.example", "h2.example"}

// An answer before the upload ends is no obstacle: what has arrived is sent again, the rest follows.
func TestBodyAnsweredEarly(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick})
	for _, host := range bodyHosts {
		for protocol, do := range protocols(s) {
			t.Run(protocol+" "+host, func(t *testing.T) {
				t.Parallel()
				body := string(upstream.Body(10_000))
				r := stack.Request{Method: "POST", Host: host, Fault: "early:429, ok", ID: s.NewID()}
				r.Upload = func(w io.Writer) error {
					if err := pieces(body[:1000], 1000)(w); err != nil {
						return err
					}
					// The rest comes when the second attempt is under way.
					if _, err := s.Upstream.WaitHits(t.Context(), r.ID, 2); err != nil {
						return err
					}
					return pieces(body[1000:], 1000)(w)
				}
				a := do(r)
				wantReplayed(t, s, a, body)
				if first := s.Upstream.Hits(a.ID)[0]; first.BodyBytes != 1000 {
					t.Errorf("%d bytes had arrived", first.BodyBytes)
				}
			})
		}
		t.Run("final "+host, func(t *testing.T) {
			t.Parallel()
			r := stack.Request{Method: "POST", Host: host, Fault: "early:503, ok", ID: s.NewID()}
			r.Upload = func(w io.Writer) (err error) {
				for err == nil { // until the client has its answer, and leaves
					_, err = io.WriteString(w, "pay")
					time.Sleep(20 * time.Millisecond)
				}
				return err
			}
			a := s.Do(r)
			if a.Status != 503 || a.Report().AmbiguityID == "" {
				t.Errorf("status %d, report %+v", a.Status, a.Report())
			}
			wantReport(t, a, stack.Report{Verdict: "ambiguous", Reason: "gateway_status", Evidence: "RESPONSE_RECEIVED", Execution: "UNKNOWN", Attempts: "1"})
			wantHits(t, s, a, 1, 0)
		})
	}
}

// A length that is announced beyond the limit ends the matter at the first byte.
func TestBodyAnnouncedTooLarge(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick})
	for _, host := range bodyHosts {
		for _, size := range []int{replayLimit, replayLimit + 1} {
			t.Run(strconv.Itoa(size)+" "+host, func(t *testing.T) {
				t.Parallel()
				body := string(upstream.Body(size))
				r := stack.Request{Method: "POST", Host: host, Fault: "early:429, ok", ID: s.NewID(),
					Header: []string{"content-length: " + strconv.Itoa(size)}}
				wait := 2
				if size > replayLimit {
					wait = 1
				}
				r.Upload = func(w io.Writer) error {
					if err := pieces(body[:1000], 1000)(w); err != nil {
						return err
					}
					if _, err := s.Upstream.WaitHits(t.Context(), r.ID, wait); err != nil {
						return err
					}
					return pieces(body[1000:], 30_000)(w)
				}
				a := s.DoH2(r)
				if size > replayLimit {
					wantReport(t, a, bodyNotReplayable)
					wantHits(t, s, a, 1, 0)
					return
				}
				wantReplayed(t, s, a, body)
			})
		}
	}
}

// The deadline begins when the upload is complete: 3 s of upload fit under a deadline of 1 s, and
// leave all of it.
func TestBodySlowUploadUnderShortDeadline(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{stack.NewPatch("a deadline of 1 s", outerRoute("/in-1s", "1s"))}})
	body := string(upstream.Body(6000))
	slowly := func(w io.Writer) error {
		for i := range 6 {
			if _, err := io.WriteString(w, body[i*1000:(i+1)*1000]); err != nil {
				return err
			}
			time.Sleep(500 * time.Millisecond)
		}
		return nil
	}
	type upload struct {
		host, fault string
		answer      stack.Answer
	}
	var uploads []*upload
	for _, host := range bodyHosts {
		for _, fault := range []string{"429, ok", "early:429, ok"} {
			uploads = append(uploads, &upload{host: host, fault: fault})
		}
	}
	together(uploads, func(u *upload) {
		u.answer = s.Do(stack.Request{Method: "POST", Host: u.host, Target: "/in-1s", Fault: u.fault, Upload: slowly})
	})
	for _, u := range uploads {
		t.Run(u.fault+" "+u.host, func(t *testing.T) {
			wantReplayed(t, s, u.answer, body)
			if u.answer.Elapsed < 3*time.Second {
				t.Errorf("answered after %v", u.answer.Elapsed)
			}
		})
	}
	t.Run("the deadline is 1 s", func(t *testing.T) {
		a := s.Do(stack.Request{Method: "POST", Target: "/in-1s", Fault: "429 retry-after=1, ok", Body: "pay"})
		wantReport(t, a, stack.Report{Verdict: "denied", Reason: "deadline", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"})
		wantHits(t, s, a, 1, 0)
	})
}

// The upload passes the limit while the second attempt runs: it goes on, and nothing can follow it.
func TestBodyPassesLimitInSecondAttempt(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick})
	body := strings.Repeat("x", replayLimit+1)
	for _, host := range bodyHosts {
		for protocol, do := range protocols(s) {
			t.Run(protocol+" "+host, func(t *testing.T) {
				t.Parallel()
				r := stack.Request{Method: "POST", Host: host}
				wantReplayed(t, s, do(late(t, s, r, "early:429, ok", body, 2, 0)), body)
				a := do(late(t, s, r, "early:429, 429, ok", body, 2, 0))
				want := bodyNotReplayable
				want.Attempts = "2"
				wantReport(t, a, want)
				wantHits(t, s, a, 2, 0)
			})
		}
	}
}

// The upload passes the limit when the judge has said yes and waits: router A does not obey any more,
// and the answer says so.
func TestBodyPassesLimitAfterTheYes(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick})
	body := strings.Repeat("x", replayLimit+1)
	type upload struct {
		name   string
		do     func(stack.Request) stack.Answer
		host   string
		answer stack.Answer
	}
	var uploads []*upload
	for _, host := range bodyHosts {
		for protocol, do := range protocols(s) {
			uploads = append(uploads, &upload{name: protocol + " " + host, do: do, host: host})
		}
	}
	together(uploads, func(u *upload) {
		u.answer = u.do(late(t, s, stack.Request{Method: "POST", Host: u.host}, "early:429 retry-after=2, ok", body, 1, len(uploads)))
	})
	for _, u := range uploads {
		t.Run(u.name, func(t *testing.T) {
			if u.answer.Status != 429 {
				t.Errorf("status %d: %s", u.answer.Status, u.answer.Body)
			}
			wantReport(t, u.answer, yesNotObeyed)
			wantHits(t, s, u.answer, 1, 0)
			wantNothingInternal(t, u.answer)
		})
	}
}

// late uploads the first 1000 bytes, and the rest once the upstream was hit n times and the judge holds
// that many answers.
func late(t *testing.T, s *stack.Stack, r stack.Request, fault, body string, n, waiting int) stack.Request {
	r.Fault, r.ID = fault, s.NewID()
	r.Upload = func(w io.Writer) error {
		if err := pieces(body[:1000], 1000)(w); err != nil {
			return err
		}
		if _, err := s.Upstream.WaitHits(t.Context(), r.ID, n); err != nil {
			return err
		}
		for end := time.Now().Add(10 * time.Second); s.ServiceMetric(0, "verdict_waiting") < float64(waiting) && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		return pieces(body[1000:], 30_000)(w)
	}
	return r
}
