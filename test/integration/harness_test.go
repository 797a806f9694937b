package integration

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Replicas: 2})
	s.KillService(0)
	s.WaitHealthy(1)
	s.RestartService(0)
	s.WaitHealthy(2)
	s.StopService(1)
	s.WaitHealthy(1)
	s.ContinueService(1)
	s.WaitHealthy(2)
	s.TerminateService(0)
	if code := s.WaitServiceExit(0, 5*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.WaitHealthy(1)
	wantRetried(t, s)
}

func TestDownThenUp(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Down: true})
	if a := s.Do(stack.Request{Fault: "reset, ok"}); a.Status != 503 {
		t.Errorf("status %d with Verdict down", a.Status)
	}
	s.RestartService(0)
	s.WaitHealthy(1)
	wantRetried(t, s)
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	wantRetried(t, start(t, stack.Options{UnixSocket: true}))
}

// Envoy's own answer is judged there only with the runtime guard that hop.yaml's head names.
func TestOldestEnvoy(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Envoy: stack.OldestEnvoy, Patches: []stack.Patch{stack.LabClusters()}})
	wantRetried(t, s)
	a := s.Do(stack.Request{Method: "POST", Host: "closed.example", Body: "pay"})
	wantReport(t, a, stack.Report{Verdict: "denied", Reason: "max_attempts", Evidence: "NOT_SENT", Execution: "NOT_EXECUTED", Attempts: "3"})
}

func wantRetried(t *testing.T, s *stack.Stack) {
	t.Helper()
	a := s.Do(stack.Request{Fault: "reset, ok"})
	if a.Status != 200 {
		t.Errorf("GET reset, ok: status %d: %s", a.Status, a.Body)
	}
	wantHits(t, s, a, 2, 2)
}

// What goes wrong with the processes under test must not pass unseen.
func TestAStackFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		play func(stack.TB)
		want string
	}{
		"a replica that dies": {
			func(t stack.TB) {
				s := stack.Start(t, stack.Options{Extproc: extproc})
				_ = syscall.Kill(s.ServicePID(0), syscall.SIGKILL)
				s.WaitHealthy(0)
			}, "verdict-0: ended by itself: signal: killed"},
		"an Envoy that dies": {
			func(t stack.TB) {
				s := stack.Start(t, stack.Options{Down: true})
				_ = syscall.Kill(s.EnvoyPID(), syscall.SIGKILL)
				s.WaitStat("cluster.app.upstream_rq_total", 1)
			}, "envoy: ended by itself: signal: killed"},
		"a configuration that Envoy refuses": {
			func(t stack.TB) {
				stack.Start(t, stack.Options{Down: true, Patches: []stack.Patch{
					stack.NewPatch("nonsense", stack.Set(stack.Cluster("app")+"/no_such_field", "1")),
				}})
			}, "'no_such_field'"},
		"a configuration that Verdict refuses": {
			func(t stack.TB) {
				stack.Start(t, stack.Options{Extproc: extproc, Config: "no_such_field: 1\n"})
			}, "no_such_field"},
		"an answer that is cut off": {
			func(t stack.TB) {
				stack.Start(t, stack.Options{Down: true}).Do(stack.Request{Fault: "half-body"})
			}, "unexpected EOF"},
		"a statistic that Envoy does not have": {
			func(t stack.TB) {
				stack.Start(t, stack.Options{Down: true}).EnvoyStat("cluster.app.no_such_statistic")
			}, "envoy has no statistic cluster.app.no_such_statistic"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			if stack.Run(t.Name(), &log, test.play) {
				t.Fatalf("did not fail:\n%s", &log)
			}
			if !strings.Contains(log.String(), test.want) {
				t.Errorf("log does not contain %q:\n%s", test.want, &log)
			}
		})
	}
}
