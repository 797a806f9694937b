// Package integration runs Verdict behind the real Envoy against the faulty upstream.
package integration

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/verdictproxy/verdict/test/stack"
)

// extproc is the service's binary, built by TestMain.
var extproc string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run fails where anything that the tests need is missing: no test of this package is ever skipped.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "verdict-integration-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, version := range []string{stack.EnvoyVersion, stack.OldestEnvoy} {
		if _, err := stack.FindEnvoy(version); err != nil {
			return fail(err)
		}
	}
	if extproc, err = stack.BuildExtproc(dir); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "integration:", err)
	return 1
}

// start starts a Stack with the binary that TestMain has built.
func start(t *testing.T, o stack.Options) *stack.Stack {
	t.Helper()
	o.Extproc = extproc
	return stack.Start(t, o)
}

// wantReport compares what the report headers say, but for the ids, which must be there or not as the
// verdict demands.
func wantReport(t *testing.T, a stack.Answer, want stack.Report) {
	t.Helper()
	got := a.Report()
	got.AmbiguityID, got.RequestID = want.AmbiguityID, want.RequestID
	if got != want {
		t.Errorf("report %+v, want %+v", got, want)
	}
}

// wantHits checks how often the upstream was asked, and how often it did what it was asked for.
func wantHits(t *testing.T, s *stack.Stack, a stack.Answer, hits, effects int) {
	t.Helper()
	if got := len(s.Upstream.Hits(a.ID)); got != hits {
		t.Errorf("%d hits, want %d", got, hits)
	}
	if got := s.Upstream.Effects(a.ID); got != effects {
		t.Errorf("%d side effects, want %d", got, effects)
	}
}

// wantNothingInternal checks that no header of Verdict's own talk has left Envoy.
func wantNothingInternal(t *testing.T, a stack.Answer) {
	t.Helper()
	if names := a.HeadersWith("x-verdict-"); names != nil {
		t.Errorf("headers %q have left Envoy", names)
	}
}
