package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

func steeredBy(listener, host string) stack.Patch {
	return stack.NewPatch("the virtual host "+host+" asks for retries by a header",
		stack.Set(stack.VirtualHost(listener, host)+"/request_headers_to_add", `[{header: {key: x-envoy-retry-on, value: 5xx}}]`))
}

// Routers obey some headers whoever sets them, also behind the mutation that takes them from clients: a POST is
// executed again without a verdict. `check` refuses that.
func TestTrapSteered(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		listener, host string
		hits           int
	}{{"outer", "all", 4}, {"attempts", "app", 2}} {
		t.Run(test.listener, func(t *testing.T) {
			t.Parallel()
			s := startTrap(t, stack.Options{Patches: []stack.Patch{steeredBy(test.listener, test.host)}})
			a := s.Do(stack.Request{Method: "POST", Fault: "503", Body: "pay"})
			wantHits(t, s, a, test.hits, test.hits)
		})
	}
}
