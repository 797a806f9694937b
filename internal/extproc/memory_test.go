package extproc

import (
	"context"
	"io"
	"slices"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// memoryStream is the server's half of a stream without a connection, for what no peer can be made to
// do at will, and for many thousand streams.
type memoryStream struct {
	grpc.ServerStream
	ctx    context.Context
	in     []*extprocv3.ProcessingRequest
	out    []*extprocv3.ProcessingResponse
	broken int // the Send that fails, from 1; 0: none
	sends  int
	onSend func() // nil: nothing
}

func (s *memoryStream) Context() context.Context { return s.ctx }

func (s *memoryStream) Recv() (*extprocv3.ProcessingRequest, error) {
	if len(s.in) == 0 {
		return nil, io.EOF
	}
	req := s.in[0]
	s.in = s.in[1:]
	return req, nil
}

func (s *memoryStream) Send(resp *extprocv3.ProcessingResponse) error {
	if s.onSend != nil {
		s.onSend()
	}
	if s.sends++; s.sends == s.broken {
		return status.Error(codes.Unavailable, "broken")
	}
	s.out = append(s.out, resp)
	return nil
}

// process serves the messages as one stream.
func (l *lab) process(md metadata.MD, broken int, in ...*extprocv3.ProcessingRequest) (*memoryStream, error) {
	s := &memoryStream{ctx: metadata.NewIncomingContext(context.Background(), md), in: in, broken: broken}
	return s, l.Process(s)
}

// TestBrokenStream: a message that could not be sent was not said, so its token goes back, once.
func TestBrokenStream(t *testing.T) {
	refused := []string{"details=upstream_reset_before_response_started{overflow}", "sent=0"}
	get := []string{"method=GET"}
	for _, test := range []struct {
		name   string
		broken int
		in     []*extprocv3.ProcessingRequest
		events []string
	}{
		{"nothing is broken", 0, []*extprocv3.ProcessingRequest{showHeaders(refused)}, []string{"grant app"}},
		{"the override", 1, []*extprocv3.ProcessingRequest{showHeaders(refused)}, []string{"grant app", "return app"}},
		{"the retry", 2, []*extprocv3.ProcessingRequest{showHeaders(refused)}, []string{"grant app", "return app"}},
		{"the question for the body", 1, []*extprocv3.ProcessingRequest{showHeaders(get), showBody([]string{"end"})}, nil},
		{"the override of the body's message", 2, []*extprocv3.ProcessingRequest{showHeaders(get), showBody([]string{"end"})}, []string{"grant app", "return app"}},
		{"the retry on the body's message", 3, []*extprocv3.ProcessingRequest{showHeaders(get), showBody([]string{"end"})}, []string{"grant app", "return app"}},
		{"after the retry", 3, []*extprocv3.ProcessingRequest{showHeaders(refused), showBody([]string{"end"})}, []string{"grant app"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, "", func(t *testing.T, l *lab) {
				_, err := l.process(judgeMetadata(), test.broken, test.in...)
				if want := test.broken != 0; (status.Code(err) == codes.Unavailable) != want {
					t.Errorf("the stream ends with %v", err)
				}
				l.wantEvents(t, test.events...)
				if l.Drain.Waiting() != 0 {
					t.Errorf("%d answers are still held", l.Drain.Waiting())
				}
				retries := l.counts(t, "verdict_decisions_total")["evidence=NOT_SENT,reason=none,upstream=app,verdict=retry"]
				if want := test.broken == 0 || test.name == "after the retry"; (retries == 1) != want {
					t.Errorf("%v retries are counted as said", retries)
				}
			})
		})
	}
}

// TestHeldUntilSaid: an answer is held until what came of it was said, so that a process that shuts
// down does not end in between.
func TestHeldUntilSaid(t *testing.T) {
	inLab(t, "", func(t *testing.T, l *lab) {
		var held []int64
		s := &memoryStream{
			ctx:    metadata.NewIncomingContext(context.Background(), judgeMetadata()),
			in:     []*extprocv3.ProcessingRequest{showHeaders([]string{"method=GET", "end"}), showHeaders([]string{"status=404"})},
			onSend: func() { held = append(held, l.Drain.Waiting()) },
		}
		if err := l.Process(s); err != nil {
			t.Fatal(err)
		}
		if want := []int64{1, 1, 0}; !slices.Equal(held, want) {
			t.Errorf("held while the override, the retry and a 404 are said: %v, want %v", held, want)
		}
		if l.Drain.Waiting() != 0 {
			t.Errorf("%d answers are still held", l.Drain.Waiting())
		}
	})
}

// TestNoRetryOfTheUnknown: whatever the rules may say of an answer without facts, the judge does not
// say retry.
func TestNoRetryOfTheUnknown(t *testing.T) {
	inLab(t, "", func(t *testing.T, l *lab) {
		limits, err := parseLimits(metadata.NewIncomingContext(t.Context(), judgeMetadata()))
		if err != nil {
			t.Fatal(err)
		}
		j := &judge{call: &call{server: l.Server, limits: limits, config: l.Config()}}
		req := showHeaders([]string{"method=GET"})
		f := j.examine(evidence.FromFacts(evidence.NewHeaders(req.GetResponseHeaders().GetHeaders()), ""))
		if d := j.decide(f); d.Verdict != decision.Retry {
			t.Fatalf("a GET answered by 503: %+v", d)
		}
		f.Known = false
		if d := j.decide(f); d.Verdict != decision.Denied || d.Reason != decision.ReasonRetryNotExecuted {
			t.Errorf("the same without facts: %+v", d)
		}
	})
}
