// Package stack runs the whole path of a request on free loopback ports: the real Envoy with
// envoy/hop.yaml, replicas of Verdict as processes of their own, and the faulty upstream.
//
//	func TestPostIsAmbiguousAfterReset(t *testing.T) {
//		s := stack.Start(t, stack.Options{Extproc: extproc})
//		a := s.Do(stack.Request{Method: "POST", Target: "/pay", Fault: "reset", Body: "10 EUR"})
//		if got := a.Report().Verdict; got != "ambiguous" {
//			t.Errorf("verdict %q", got)
//		}
//		if hits := s.Upstream.Hits(a.ID); len(hits) != 1 {
//			t.Errorf("%d hits", len(hits))
//		}
//	}
//
// Every request has an id of its own, by which the upstream counts its hits; the fault is one of
// package upstream's. Request.Host chooses the inner virtual host, and so the upstream cluster:
// h2.example and tls.example of hop.yaml, and those of LabClusters.
//
// # Patches
//
// A test runs envoy/hop.yaml as it is but for ports and addresses, and says what else it changes by
// patches with a name. A Patch is a list of edits of the parsed file; an edit's path names list
// elements by their name, and its value is YAML:
//
//	stack.Options{Patches: []stack.Patch{
//		stack.LabClusters(),
//		stack.NewPatch("one retry",
//			stack.Set(stack.Route("outer", "all", "0")+"/route/retry_policy/num_retries", "1")),
//		stack.NewPatch("a fault filter before the head",
//			stack.Insert(stack.HTTPFilter("attempts", "head"), `{name: fault, typed_config: {...}}`)),
//	}}
//
// An edit that finds nothing, and a patch that changes nothing, end the test.
//
// # Failures
//
// Verdict is started, killed, stopped and continued by KillService and its neighbours; Options.Down
// starts none. A process that ends by itself, a data race that it reports, and an exit code other
// than 0 after SIGTERM fail the test. Logs are shown only when the test has failed.
package stack
