package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// An error body that is too large for Envoy to collect passes to its end, and what comes next on the
// connections that it has used passes too. Its last bytes come together with the byte that is one too
// many, and its end alone, while the judge is being asked: Envoy loses that end when it is answered.
func TestWaitErrorBodyTooLarge(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Config: quick, Patches: []stack.Patch{clientRoutes}})
	for _, host := range []string{"app.example", "h2.example"} {
		for _, size := range []int{1<<20 + 1, 1_100_000, 2_000_000} {
			for _, coding := range []string{"", " chunked"} {
				for protocol, try := range protocols(s) {
					t.Run(fmt.Sprintf("%d%s from %s by %s", size, coding, host, protocol), func(t *testing.T) {
						a := try(stack.Request{Method: "POST", Host: host, Fault: fmt.Sprintf("slow-body:429 hold=50ms body=%d%s, ok", size, coding), Body: "pay", Timeout: 8 * time.Second})
						if a.Status == 200 { // it happened to be there whole
							wantHits(t, s, a, 2, 1)
						} else {
							wantTooLarge(t, s, a, size)
						}
						if next := try(stack.Request{Host: host, Fault: "ok", Timeout: 8 * time.Second}); next.Status != 200 {
							t.Errorf("the next request: status %d", next.Status)
						}
					})
				}
			}
		}
	}
	if n := s.ExtProcStat("attempts", "streams_failed"); n != 0 {
		t.Errorf("%d streams of the judge have failed", n)
	}
}
