package integration

import (
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// Verdict replaces no credential but its own. Here first attempts have none from Verdict.
func TestCredentialOfAClient(t *testing.T) {
	t.Parallel()
	const clients = "authorization: Bearer a-clients-own"
	kept := stack.NewPatch("clients keep their authorization",
		stack.Remove(stack.HCM("outer")+"/early_header_mutation_extensions/0/typed_config/mutations/4"))
	onTheWay := stack.NewPatch("router A removes it", stack.Set(stack.VirtualHost("outer", "all")+"/request_headers_to_remove", "[authorization]"))
	for _, test := range []struct {
		name    string
		patches []stack.Patch
		fault   string
		report  stack.Report // of the answer's end; zero: a success
		carried []string
	}{
		{"removed at the listener", nil, "guarded", denied401("credential_not_ours", "NOT_EXECUTED", "1"), []string{""}},
		{"removed by router A", []stack.Patch{kept, onTheWay}, "guarded", denied401("credential_not_ours", "NOT_EXECUTED", "1"), []string{""}},
		// What the removal is for: a client's bad credential is still not refreshed after its 401, but any
		// other failure has the service's take its place.
		{"kept, 401", []stack.Patch{kept}, "guarded", denied401("credential_not_ours", "NOT_EXECUTED", "1"), []string{"a-clients-own"}},
		{"kept, 503", []stack.Patch{kept}, "503, guarded", stack.Report{}, []string{"a-clients-own", "app1-token-1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := startCredentials(t, stack.FirstFromNowhere, stack.Options{Patches: test.patches}, source{name: "app1"})
			r := get("app1")
			r.Fault, r.Header = test.fault, []string{clients}
			a := l.Do(r)
			wantReport(t, a, test.report)
			l.wantCarried(t, a, test.carried...)
			if n := l.issuer("app1").fetches(); n != 1 {
				t.Errorf("the token endpoint was asked %d times", n)
			}
		})
	}
}

// A judge that is not told what the attempt carried refreshes nothing.
func TestCredentialUnseen(t *testing.T) {
	t.Parallel()
	unseen := stack.NewPatch("the judge is not told", stack.Remove(stack.DelegatedConfig("attempts", "judge")+"/response_attributes/4"))
	l := startCredentials(t, stack.FirstFromVerdict, stack.Options{Patches: []stack.Patch{unseen}}, source{name: "app1"})
	wantStatus(t, l.Do(get("app1")), 200)
	l.issuer("app1").revoke()
	a := l.Do(get("app1"))
	wantReport(t, a, denied401("credential_not_ours", "NOT_EXECUTED", "1"))
	l.wantCarried(t, a, "app1-token-1")
}

// Other upstreams pay nothing: their attempts do not ask for a credential, and do not need Verdict for one.
func TestCredentialIsOffElsewhere(t *testing.T) {
	t.Parallel()
	l := startCredentials(t, stack.FirstFromVerdict, stack.Options{Config: "- {clusters: [app], policy: {backoff: {base: 0.001s, max: 0.001s}}}\n"}, source{name: "app1"})
	before := l.ExtProcStat("attempts", "streams_started")
	a := l.Do(stack.Request{Fault: "503, ok"})
	wantStatus(t, a, 200)
	l.wantCarried(t, a, "", "")
	if n := l.ExtProcStat("attempts", "streams_started") - before; n != 1 {
		t.Errorf("%d streams for one failing attempt, want only the judge's", n)
	}
	wantStatus(t, l.Do(get("app1")), 200)
	if n := l.ExtProcStat("attempts", "streams_started") - before; n != 2 {
		t.Errorf("%d streams, want one more for the credential", n)
	}
	l.KillService(0)
	l.WaitHealthy(0)
	wantStatus(t, l.Do(stack.Request{}), 200)
	for _, method := range []string{"GET", "POST"} {
		a := l.Do(with(get("app1"), method))
		if a.Status < 500 || len(l.Upstream.Hits(a.ID)) != 0 {
			t.Errorf("without Verdict: %s: status %d, %d attempts without a credential", method, a.Status, len(l.Upstream.Hits(a.ID)))
		}
		if report := a.Report(); report.Verdict != "" {
			t.Errorf("without Verdict: %s, which was not sent: %+v", method, report)
		}
	}
}

// Replicas have tokens of their own, know each other's by their mark, and each refreshes at most once.
func TestCredentialOfTwoReplicas(t *testing.T) {
	t.Parallel()
	l := startCredentials(t, stack.FirstFromVerdict, stack.Options{Replicas: 2}, source{name: "app1"})
	i := l.issuer("app1")
	i.wantFetches(t, 2)
	for range 10 {
		wantStatus(t, l.Do(get("app1")), 200)
	}
	i.revoke()
	successes := 0
	for range 40 {
		a := l.Do(get("app1"))
		switch a.Status {
		case 200:
			successes++
		case 401: // the replay met the other replica's rejected token
			wantReport(t, a, denied401("credential_rejected", "UNKNOWN", "2"))
		default:
			t.Errorf("status %d: %+v", a.Status, a.Report())
		}
		if hits := len(l.Upstream.Hits(a.ID)); hits > 2 {
			t.Errorf("%d attempts", hits)
		}
	}
	if successes < 30 {
		t.Errorf("%d of 40 requests succeeded", successes)
	}
	if n := i.fetches(); n > 4 {
		t.Errorf("the token endpoint was asked %d times by two replicas with one refresh each", n)
	}
}
