package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// slowUpstream lets an attempt take 8 s.
func slowUpstream(name string) stack.Patch {
	return stack.NewPatch("a slow upstream "+name, stack.Set(stack.Route("attempts", name, name)+"/route/timeout", "8s"))
}

// Verdict goes away after it has given an attempt its credential, and before the upstream has answered. The
// answer passes as it is: Envoy (1.40) ends the credential filter's stream once it has no more to ask.
func TestCredentialOutlivesVerdict(t *testing.T) {
	t.Parallel()
	asked := stack.NewPatch("the credential filter is asked about answers too",
		stack.Set(stack.DelegatedConfig("attempts", "credential")+"/processing_mode/response_header_mode", "SEND"))
	for _, test := range []struct {
		name    string
		end     func(*stack.Stack, int)
		patches []stack.Patch
		status  int
		verdict string
	}{
		{"killed", (*stack.Stack).KillService, nil, 200, ""},
		{"terminated", (*stack.Stack).TerminateService, nil, 200, ""},
		// What the processing mode is for.
		{"asked about answers", (*stack.Stack).KillService, []stack.Patch{asked}, 500, "ambiguous"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := startCredentials(t, stack.FirstFromVerdict, stack.Options{Patches: append(test.patches, slowUpstream("app1"))}, source{name: "app1"})
			wantStatus(t, l.Do(get("app1")), 200)
			r := with(get("app1"), "POST")
			r.ID, r.Fault = l.NewID(), "guarded delay=3s"
			running := l.ask(t, r)
			waitHits(t, l.Stack, r.ID, 1)
			test.end(l.Stack, 0)
			a := <-running
			wantStatus(t, a, test.status)
			wantHits(t, l.Stack, a, 1, 1)
			if got := a.Report().Verdict; got != test.verdict {
				t.Errorf("verdict %q, want %q", got, test.verdict)
			}
		})
	}
}
