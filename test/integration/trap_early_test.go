package integration

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

const earlySize = 200_000

// earlyAnswer uploads without an end, and returns the answer that comes meanwhile.
func earlyAnswer(t *testing.T, s *stack.Stack, status int) (stack.Answer, error) {
	t.Helper()
	return s.Try(t.Context(), stack.Request{Method: "POST", Fault: fmt.Sprintf("early:%d body=%d end=stall", status, earlySize), Upload: func(w io.Writer) error {
		for {
			if _, err := io.WriteString(w, "x"); err != nil {
				return err // the client has the answer, and has left
			}
			time.Sleep(20 * time.Millisecond)
		}
	}})
}

// An answer that comes before the upload has ended arrives whole.
func TestTrapEarlyAnswer(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{})
	for _, status := range []int{200, 413} {
		if a, err := earlyAnswer(t, s, status); a.Status != status || len(a.Body) != earlySize || err != nil {
			t.Errorf("status %d, %d bytes: %v", a.Status, len(a.Body), err)
		}
	}
}

// narrowWindows keep slow peers from stalling others, as far as HTTP/2 can.
var narrowWindows = stack.NewPatch("with windows that slow peers cannot use up",
	stack.Set(stack.HTTPOptions("attempts")+"/explicit_http_config/http2_protocol_options", "{initial_stream_window_size: 65536, initial_connection_window_size: 134217728}"))

// In HTTP/2 it is cut where the window is full, because the inner hop ends the stream.
func TestTrapEarlyAnswerBite(t *testing.T) {
	t.Parallel()
	s := startTrap(t, stack.Options{Patches: []stack.Patch{http2Hops, narrowWindows}})
	for _, status := range []int{200, 413} {
		a, err := earlyAnswer(t, s, status)
		if a.Status != status || len(a.Body) >= earlySize || err == nil {
			t.Errorf("status %d, %d bytes, %v: the trap does not bite", a.Status, len(a.Body), err)
		}
	}
}
