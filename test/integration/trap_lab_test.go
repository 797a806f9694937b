package integration

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// Each trap of the two-hop topology is run twice: on envoy/hop.yaml, whose cure works, and with a patch
// that takes the cure away and shows what the trap does.

// trapConfig waits next to nothing between attempts, and has a budget that never ends.
const trapConfig = `
defaults: {backoff: {base: 0.001s, max: 0.002s}, budget: {ratio: 0, min_retries_per_second: 1000}}
`

// startTrap starts a Stack whose configuration Envoy must accept without a word of complaint.
func startTrap(t *testing.T, o stack.Options) *stack.Stack {
	t.Helper()
	if o.Config == "" {
		o.Config = trapConfig
	}
	s := start(t, o)
	version := o.Envoy
	if version == "" {
		version = stack.EnvoyVersion
	}
	if log := validate(t, version, s.ConfigFile); len(log) > 0 {
		t.Errorf("envoy --mode validate complains:\n%s", strings.Join(log, "\n"))
	}
	return s
}

// outerHost adds to the outer listener a virtual host NAME.example whose route is like the one of
// hop.yaml but for the fields of action, a YAML mapping.
func outerHost(name, action string) stack.Edit {
	return func(c *stack.Config) error {
		all, err := c.Get(stack.VirtualHost("outer", "all"))
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(all)
		if err != nil {
			return err
		}
		var host, fields map[string]any
		if err := yaml.Unmarshal(text, &host); err != nil {
			return err
		}
		if err := yaml.Unmarshal([]byte(action), &fields); err != nil {
			return fmt.Errorf("%q: %w", action, err)
		}
		host["name"], host["domains"] = name, []any{name + ".example"}
		route := host["routes"].([]any)[0].(map[string]any)["route"].(map[string]any)
		maps.Copy(route, fields)
		if text, err = yaml.Marshal(host); err != nil {
			return err
		}
		return stack.Append(stack.HCM("outer")+"/route_config/virtual_hosts", string(text))(c)
	}
}

// patient is a host whose timeouts do not matter.
var patient = stack.NewPatch("a host with timeouts of a minute",
	outerHost("patient", `{timeout: 60s}`),
	upstreamLike("patient", "", `{route: {cluster: patient, timeout: 60s}}`))

// waitHits waits until the upstream was asked n times.
func waitHits(t *testing.T, s *stack.Stack, id string, n int) []upstream.Hit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	hits, err := s.Upstream.WaitHits(ctx, id, n)
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

// result is what came of a request that was sent in a goroutine.
type result struct {
	stack.Answer
	err error
}

// send sends a request and does not wait for its answer.
func send(t *testing.T, s *stack.Stack, r stack.Request) <-chan result {
	done := make(chan result, 1)
	go func() {
		a, err := s.Try(t.Context(), r)
		done <- result{a, err}
	}()
	return done
}

// answered waits for an answer that must come.
func answered(t *testing.T, done <-chan result) stack.Answer {
	t.Helper()
	r := <-done
	if r.err != nil {
		t.Fatalf("no answer: %v", r.err)
	}
	return r.Answer
}

// hangs checks that no answer comes for a while.
func hangs(t *testing.T, what string, done <-chan result) {
	t.Helper()
	select {
	case r := <-done:
		t.Errorf("%s: got status %d, %v: the trap does not bite", what, r.Status, r.err)
	case <-time.After(time.Second):
	}
}
