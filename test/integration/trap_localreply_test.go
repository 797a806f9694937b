package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

func localReplies(listener, status string) stack.Patch {
	return stack.NewPatch("own replies of the hop "+listener+" are "+status, stack.Set(stack.HCM(listener)+"/local_reply_config",
		`{mappers: [{filter: {status_code_filter: {comparison: {op: GE, value: {default_value: 500, runtime_key: none}}}}, status_code: `+status+`}]}`))
}

// What may have been executed passes for a success, or for a refusal where Verdict is down, if Envoy's own replies
// are given such a status. `check` refuses that.
func TestTrapLocalReplies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status string
		down   bool
	}{{"200", false}, {"409", true}} {
		t.Run(test.status, func(t *testing.T) {
			t.Parallel()
			s := startTrap(t, stack.Options{Patches: []stack.Patch{localReplies("attempts", test.status)}, Down: test.down})
			a := s.Do(stack.Request{Method: "POST", Fault: "reset", Body: "pay"})
			wantHits(t, s, a, 1, 1)
			wantReport(t, a, stack.Report{})
		})
	}
}
