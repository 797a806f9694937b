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

// The configurations that are remembered, of which no two judge alike, are bounded in number and in their
// size as messages; the last one is always remembered.
const (
	maxPast      = 256
	maxPastBytes = 1 << 20
)

// past is what was in force before a Config: what earlier attempts of a request may have been judged by.
type past struct {
	configs []pastConfig // the one replaced first stands first
	// forgotten stands for those that the bounds have pushed out, which may have been looser in everything.
	forgotten pastConfig
}

type pastConfig struct {
	config   *Config // without a past of its own
	judges   string  // see judgement
	replaced time.Time
	longest  time.Duration // longest_request, the longest that was in force then or later
}

// LongestRequest is how long a request that has a deadline may take.
func (c *Config) LongestRequest() time.Duration { return c.resolved.GetLongestRequest().AsDuration() }

// After returns c as what is in force from now on, after previous was.
func (c *Config) After(previous *Config, now time.Time) *Config {
	next := *c
	next.past = previous.past.with(pastConfig{judges: previous.judgement(), replaced: now, config: &Config{
		undeclared: previous.undeclared, upstreams: previous.upstreams, byCluster: previous.byCluster,
	}})
	judges := c.judgement()
	next.past.configs = slices.DeleteFunc(next.past.configs, func(p pastConfig) bool {
		return p.judges == judges // c itself stands here once it is replaced
	})
	next.past.bound()
	longest := max(c.LongestRequest(), previous.LongestRequest())
	for i := range next.past.configs {
		next.past.configs[i].extend(longest)
	}
	next.past.forgotten.extend(longest)
	return &next
}

// with returns a copy of the past with one more configuration, in the place of one that judges alike.
func (b past) with(p pastConfig) past {
	alike := func(q pastConfig) bool { return p.judges == q.judges }
	if i := slices.IndexFunc(b.configs, alike); i >= 0 {
		p.extend(b.configs[i].longest)
	}
	b.configs = append(slices.DeleteFunc(slices.Clone(b.configs), alike), p)
	return b
}

// bound forgets what was replaced first.
func (b *past) bound() {
	size := 0
	for i, p := range slices.Backward(b.configs) {
		size += len(p.judges)
		if last := len(b.configs) - 1; i < last && (size > maxPastBytes || last-i >= maxPast) {
			longest := b.forgotten.longest
			for _, gone := range b.configs[:i+1] {
				longest = max(longest, gone.longest)
			}
			b.forgotten = b.configs[i]
			b.forgotten.extend(longest)
			b.configs = slices.Clone(b.configs[i+1:])
			return
		}
	}
}

func (p *pastConfig) extend(longest time.Duration) { p.longest = max(p.longest, longest) }

// mayHaveJudged reports whether an earlier attempt of a request that lives now may have been judged by p. A
// request with more time left than any is said to take is not bounded by what is said.
func (p *pastConfig) mayHaveJudged(now time.Time, f decision.Facts) bool {
	bounded := f.Deadline == decision.DeadlineKnown && f.Remaining <= p.longest
	return p.config != nil && (!bounded || now.Before(p.replaced.Add(p.longest)))
}

// AnyBefore reports whether looser holds for any configuration by which an earlier attempt of a request
// may have been judged, of which f gives the deadline. It is true where such a configuration has been
// forgotten.
func (c *Config) AnyBefore(now time.Time, f decision.Facts, looser func(*Config) bool) bool {
	if c.past.forgotten.mayHaveJudged(now, f) {
		return true
	}
	for i := range c.past.configs {
		if p := &c.past.configs[i]; p.mayHaveJudged(now, f) && looser(p.config) {
			return true
		}
	}
	return false
}

// judgement is all that what an earlier attempt proves depends on, as a message in its wire format: the
// class of every request and the statuses that are distrusted.
func (c *Config) judgement() string {
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
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(j)
	if err != nil {
		panic(err) // what was parsed is valid UTF-8, and nothing is required
	}
	return string(wire)
}
