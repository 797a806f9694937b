package config

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// defaultLongestRequest is Config.longest_request where the file does not say it. Too long costs little:
// for so long a second attempt that fails, of an operation which was made stricter, is not followed by a
// third. Too short may execute a request twice. Envoy's default for a route is 15 s.
const defaultLongestRequest = time.Hour

// maxPast bounds the configurations that are remembered, of which no two judge alike.
const maxPast = 16

// past is what was in force before a Config: what earlier attempts of a request may have been judged by.
type past struct {
	configs []pastConfig // the one replaced first stands first
	// forgotten is replaced like the last configuration that maxPast has pushed out, which may have been
	// looser in everything.
	forgotten pastConfig
}

type pastConfig struct {
	config   *Config // without a past of its own
	replaced time.Time
	longest  time.Duration // longest_request, the longest that was in force then or later
}

// LongestRequest is how long a request that has a deadline may take.
func (c *Config) LongestRequest() time.Duration { return c.resolved.GetLongestRequest().AsDuration() }

// After returns c as what is in force from now on, after previous was.
func (c *Config) After(previous *Config, now time.Time) *Config {
	next := *c
	next.past = past{forgotten: previous.past.forgotten}
	old := *previous
	old.past = past{}
	for _, p := range append(slices.Clone(previous.past.configs), pastConfig{config: &old, replaced: now}) {
		if judgesAlike(p.config, c) {
			continue // c itself stands here once it is replaced
		}
		next.past.configs = slices.DeleteFunc(next.past.configs, func(q pastConfig) bool {
			return judgesAlike(p.config, q.config)
		})
		next.past.configs = append(next.past.configs, p)
	}
	if n := len(next.past.configs) - maxPast; n > 0 {
		longest := next.past.forgotten.longest
		next.past.forgotten = next.past.configs[n-1]
		next.past.forgotten.extend(longest)
		next.past.configs = slices.Clone(next.past.configs[n:])
	}
	longest := max(c.LongestRequest(), previous.LongestRequest())
	for i := range next.past.configs {
		next.past.configs[i].extend(longest)
	}
	next.past.forgotten.extend(longest)
	return &next
}

func (p *pastConfig) extend(longest time.Duration) { p.longest = max(p.longest, longest) }

// mayHaveJudged reports whether an earlier attempt of a request that lives now may have been judged by p.
func (p *pastConfig) mayHaveJudged(now time.Time, deadline decision.DeadlineState) bool {
	return p.config != nil && (deadline != decision.DeadlineKnown || now.Before(p.replaced.Add(p.longest)))
}

// AnyBefore reports whether looser holds for any configuration by which an earlier attempt of a request
// may have been judged, given the request's deadline. It is true where such a configuration has been
// forgotten.
func (c *Config) AnyBefore(now time.Time, deadline decision.DeadlineState, looser func(*Config) bool) bool {
	if c.past.forgotten.mayHaveJudged(now, deadline) {
		return true
	}
	for i := range c.past.configs {
		if p := &c.past.configs[i]; p.mayHaveJudged(now, deadline) && looser(p.config) {
			return true
		}
	}
	return false
}

// judgesAlike reports whether two configurations have the same class for every request and distrust the
// same statuses: all that what an earlier attempt proves depends on.
func judgesAlike(a, b *Config) bool { return proto.Equal(a.judgement(), b.judgement()) }

// judgement is what judgesAlike compares.
func (c *Config) judgement() *retryv1.Config {
	of := func(p *retryv1.UpstreamPolicy) *retryv1.UpstreamPolicy {
		distrusted := slices.Clone(p.GetDistrustedStatuses())
		slices.Sort(distrusted)
		return &retryv1.UpstreamPolicy{DistrustedStatuses: distrusted}
	}
	j := &retryv1.Config{Defaults: of(c.resolved.GetDefaults())}
	for _, u := range c.resolved.GetUpstreams() {
		same := &retryv1.Upstream{Clusters: u.GetClusters(), Policy: of(u.GetPolicy())}
		for _, o := range u.GetOperations() {
			o = proto.CloneOf(o)
			o.Name = ""
			same.Operations = append(same.Operations, o)
		}
		j.Upstreams = append(j.Upstreams, same)
	}
	return j
}
