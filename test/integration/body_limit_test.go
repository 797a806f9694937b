package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// replayLimit is request_body_buffer_limit of envoy/hop.yaml.
const replayLimit = 1 << 20

var bodyNotReplayable = stack.Report{Verdict: "denied", Reason: "body_not_replayable", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"}

// yesNotObeyed is what the judge says for the case that router A does not do what it was told.
var yesNotObeyed = stack.Report{Verdict: "denied", Reason: "retry_not_executed", Evidence: "RESPONSE_RECEIVED", Execution: "NOT_EXECUTED", Attempts: "1"}

// A body up to the replay limit is sent again, byte for byte; one byte more, and the request is sent
// once. It is all the same in which protocol it comes and goes, and whether its length is announced.
func TestBodyLimit(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick})
	for _, size := range []int{replayLimit - 1, replayLimit, replayLimit + 1} {
		for _, coding := range []string{"announced", "chunked"} {
			for _, host := range []string{"app.example", "h2.example"} {
				for protocol, do := range protocols(s) {
					t.Run(fmt.Sprintf("%d %s from %s to %s", size, coding, protocol, host), func(t *testing.T) {
						t.Parallel()
						body := string(upstream.Body(size))
						r := stack.Request{Method: "POST", Host: host, Fault: "429, ok"}
						if r.Body = body; coding == "chunked" {
							r.Body, r.Upload = "", pieces(body, 30_000)
						}
						a := do(r)
						if size > replayLimit {
							if a.Status != 429 {
								t.Errorf("status %d", a.Status)
							}
							wantReport(t, a, bodyNotReplayable)
							wantHits(t, s, a, 1, 0)
							return
						}
						wantReplayed(t, s, a, body)
						wantAnnounced(t, s, a, coding == "announced")
					})
				}
			}
		}
	}
}

// protocols are the two ways in which a client can ask.
func protocols(s *stack.Stack) map[string]func(stack.Request) stack.Answer {
	return map[string]func(stack.Request) stack.Answer{"h1": s.Do, "h2": s.DoH2}
}

// pieces uploads the body in pieces of n bytes.
func pieces(body string, n int) func(io.Writer) error {
	return func(w io.Writer) error {
		for rest := body; rest != ""; {
			piece := rest[:min(n, len(rest))]
			if _, err := io.WriteString(w, piece); err != nil {
				return err
			}
			rest = rest[len(piece):]
		}
		return nil
	}
}

// wantReplayed: the request was sent twice, the second time whole, and executed once.
func wantReplayed(t *testing.T, s *stack.Stack, a stack.Answer, body string) {
	t.Helper()
	if a.Status != 200 {
		t.Errorf("status %d, report %+v", a.Status, a.Report())
	}
	wantReport(t, a, stack.Report{})
	wantHits(t, s, a, 2, 1)
	hits := s.Upstream.Hits(a.ID)
	last := hits[len(hits)-1]
	want := sha256.Sum256([]byte(body))
	if !last.Complete || last.BodyBytes != int64(len(body)) || last.BodySHA256 != hex.EncodeToString(want[:]) {
		t.Errorf("%d of %d bytes arrived at last, whole=%t, sha256 %s", last.BodyBytes, len(body), last.Complete, last.BodySHA256)
	}
	if first := hits[0]; first.Complete && first.BodySHA256 != last.BodySHA256 {
		t.Errorf("sha256 %s, then %s", first.BodySHA256, last.BodySHA256)
	}
}

// wantAnnounced: the length was announced to the upstream on every attempt, or on none.
func wantAnnounced(t *testing.T, s *stack.Stack, a stack.Answer, announced bool) {
	t.Helper()
	for _, hit := range s.Upstream.Hits(a.ID) {
		want := ""
		if announced {
			want = strconv.FormatInt(hit.BodyBytes, 10)
		}
		if got := hit.Header.Get("Content-Length"); got != want {
			t.Errorf("attempt %d: content-length %q, want %q", hit.Attempt, got, want)
		}
	}
}

// Where Envoy keeps less than Verdict was told, router A does not do what the judge says. The answer
// then carries what the judge has said for this case.
func TestBodyLimitThatVerdictDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{stack.NewPatch("Envoy keeps 1000 bytes",
		stack.Set(stack.VirtualHost("outer", "all")+"/request_body_buffer_limit", "1000"))}})
	for protocol, do := range protocols(s) {
		t.Run(protocol, func(t *testing.T) {
			wantReplayed(t, s, do(stack.Request{Method: "POST", Fault: "429, ok", Body: strings.Repeat("x", 1000)}), strings.Repeat("x", 1000))
			a := do(stack.Request{Method: "POST", Fault: "429, ok", Body: strings.Repeat("x", 1001)})
			if a.Status != 429 {
				t.Errorf("status %d", a.Status)
			}
			wantReport(t, a, yesNotObeyed)
			wantHits(t, s, a, 1, 0)
			wantNothingInternal(t, a)
		})
	}
}

// Without request_body_buffer_limit the replay limit is another one for each protocol, so that nothing
// true could be told to Verdict.
func TestBodyLimitWithoutTheCure(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{stack.NewPatch("no limit is set",
		stack.Remove(stack.VirtualHost("outer", "all")+"/request_body_buffer_limit"),
		streamMetadata("attempts", "judge", "x-verdict-replay-limit", "16777216"))}})
	r := stack.Request{Method: "POST", Fault: "429, ok", Body: string(upstream.Body(replayLimit + 1))}
	a := s.Do(r)
	wantReport(t, a, yesNotObeyed)
	wantHits(t, s, a, 1, 0)
	wantReplayed(t, s, s.DoH2(r), r.Body)
}

// streamMetadata sets a value of the initial metadata of a filter's ext_proc streams.
func streamMetadata(listener, filter, key, value string) stack.Edit {
	return func(c *stack.Config) error {
		path := stack.DelegatedConfig(listener, filter) + "/grpc_service/initial_metadata"
		list, err := c.Get(path)
		if err != nil {
			return err
		}
		for i, entry := range list.([]any) {
			if entry.(map[string]any)["key"] == key {
				return stack.Set(path+"/"+strconv.Itoa(i)+"/value", strconv.Quote(value))(c)
			}
		}
		return fmt.Errorf("%s: no %s", path, key)
	}
}
