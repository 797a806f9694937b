package config

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// resolve writes what is not declared from what is declared above it, into the document's own
// message, and makes a Config of the result.
func resolve(d *document) (*Config, error) {
	d.resolveBudget()
	d.resolveListeners()
	d.config.Defaults = d.override(builtIn(), d.config.GetDefaults(), "defaults")
	c := &Config{
		undeclared: newUpstream(d.config.GetDefaults()),
		byCluster:  make(map[string]*Upstream),
	}
	entries := make(map[string]int)
	for i, declared := range d.config.GetUpstreams() {
		declared.Policy = d.override(d.config.GetDefaults(), declared.GetPolicy(), "upstreams", i, "policy")
		u := newUpstream(declared.GetPolicy())
		u.clusters = declared.GetClusters()
		u.operations = d.operations(i, declared.GetOperations())
		u.credential = d.resolveCredential(i, declared.GetCredential(), declared.GetPolicy())
		c.upstreams = append(c.upstreams, u)
		for j, cluster := range u.clusters {
			if first, twice := entries[cluster]; twice && first != i {
				d.addAt([]any{"upstreams", i, "clusters", j}, "%q stands in upstreams[%d] already", cluster, first)
				continue
			}
			entries[cluster] = i
			c.byCluster[cluster] = u
		}
	}
	c.resolved, c.warnings = &d.config, d.warnings
	if d.config.LongestRequest == nil {
		d.config.LongestRequest = durationpb.New(defaultLongestRequest)
	}
	c.empty = d.root == nil || d.root.Tag == "!!null"
	return c, d.problems.err()
}

// builtIn is what holds where the file says nothing, from the packages that own the numbers.
func builtIn() *retryv1.UpstreamPolicy {
	p, b := decision.DefaultPolicy(), budget.DefaultSettings()
	return &retryv1.UpstreamPolicy{
		MaxAttempts:      proto.Uint32(uint32(p.MaxAttempts)),
		MinAttemptBudget: durationpb.New(p.MinAttemptBudget),
		Backoff: &retryv1.Backoff{
			Base:          durationpb.New(p.Backoff.Base),
			Max:           durationpb.New(p.Backoff.Max),
			Jitter:        proto.String("full"),
			RetryAfterCap: durationpb.New(p.RetryAfterCap),
		},
		ReplayOn_401: proto.String("safe"),
		Shadow:       proto.Bool(false),
		Budget: &retryv1.Budget{
			Ratio:               proto.Float64(float64(b.Ratio) / budget.Token),
			MinRetriesPerSecond: proto.Float64(b.MinRetriesPerSecond()),
			Interval:            durationpb.New(b.Interval),
		},
	}
}

// override returns base with each field replaced that the policy at path declares, and checks what
// only the whole can show.
func (d *document) override(base, declared *retryv1.UpstreamPolicy, path ...any) *retryv1.UpstreamPolicy {
	p := proto.CloneOf(base)
	at := func(field ...any) []any { return slices.Concat(path, field) }
	replace(p.ProtoReflect(), declared.ProtoReflect())
	// In a message an empty list looks like none.
	if _, there := d.find(at("transient_statuses")); there {
		p.TransientStatuses = declared.GetTransientStatuses()
	}
	if _, there := d.find(at("distrusted_statuses")); there {
		p.DistrustedStatuses = declared.GetDistrustedStatuses()
	}

	if b := p.GetBackoff(); declared.GetBackoff() != nil && b.GetBase().AsDuration() > b.GetMax().AsDuration() {
		field := "base"
		if declared.GetBackoff().GetBase() == nil {
			field = "max"
		}
		d.addAt(at("backoff", field), "base %v is greater than max %v", b.GetBase().AsDuration(), b.GetMax().AsDuration())
	}
	if declared.GetBudget() != nil {
		inherited := settingsErrors(base.GetBudget())
		for _, err := range settingsErrors(p.GetBudget()) {
			if field, text, _ := strings.Cut(err, ": "); !slices.Contains(inherited, err) {
				d.addAt(at("budget", field), "%s", text)
			}
		}
	}
	return p
}

// replace sets each field of dst that src has. It goes into backoff and budget; a duration is a value.
// (proto.Merge makes 1.5s of 1s and 0.5s, and appends lists.)
func replace(dst, src protoreflect.Message) {
	src.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() != nil && f.Message().FullName() != "google.protobuf.Duration" {
			replace(dst.Mutable(f).Message(), v.Message())
		} else {
			dst.Set(f, v)
		}
		return true
	})
}

func newUpstream(p *retryv1.UpstreamPolicy) *Upstream {
	u := &Upstream{
		policy: decision.Policy{
			MaxAttempts:      int(p.GetMaxAttempts()),
			MinAttemptBudget: p.GetMinAttemptBudget().AsDuration(),
			Backoff: decision.Backoff{
				Base:   p.GetBackoff().GetBase().AsDuration(),
				Max:    p.GetBackoff().GetMax().AsDuration(),
				Jitter: decision.FullJitter,
			},
			RetryAfterCap: p.GetBackoff().GetRetryAfterCap().AsDuration(),
			ReplayOn401:   decision.ReplaySafe,
		},
		ambiguous: int(p.GetAmbiguousStatus()),
		shadow:    p.GetShadow(),
	}
	if p.GetBackoff().GetJitter() == "decorrelated" {
		u.policy.Backoff.Jitter = decision.DecorrelatedJitter
	}
	if p.GetReplayOn_401() == "idempotent" {
		u.policy.ReplayOn401 = decision.ReplayIdempotent
	}
	for _, status := range p.GetTransientStatuses() {
		u.policy.Transient.Add(int(status))
	}
	for _, status := range p.GetDistrustedStatuses() {
		u.policy.Distrusted.Add(int(status))
	}
	u.budget, _ = settings(p.GetBudget()) // its errors are the document's problems
	return u
}

func settings(b *retryv1.Budget) (budget.Settings, error) {
	return budget.NewSettings(b.GetRatio(), b.GetMinRetriesPerSecond(), b.GetInterval().AsDuration())
}

// settingsErrors are those of settings, each beginning with its field.
func settingsErrors(b *retryv1.Budget) []string {
	_, err := settings(b)
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// operations reads the declarations of one upstream.
func (d *document) operations(upstream int, declared []*retryv1.Operation) operations {
	var byPattern []operation
	byRoute := make(map[string]*operation)
	var patterns patternSet
	for i, o := range declared {
		field := func(name string) []any { return []any{"upstreams", upstream, "operations", i, name} }
		text, route := o.GetPattern(), o.GetRouteOperation()
		op := operation{name: cmp.Or(o.GetName(), text, route), class: idempotency(o.GetIdempotency())}
		o.Name = op.name
		switch {
		case text != "":
			var err error
			if op.pattern, err = parsePattern(text); err != nil {
				d.addAt(field("pattern"), "%v", err)
			} else if other := patterns.add(text); other != "" {
				d.addAt(field("pattern"), "conflicts with %q: some requests match both, and neither is more specific", other)
			} else {
				byPattern = append(byPattern, op)
			}
		case route != "" && byRoute[route] != nil:
			d.addAt(field("route_operation"), "%q is declared already", route)
		case route != "":
			byRoute[route] = &op
		}
	}
	return newOperations(byPattern, byRoute)
}

// idempotency returns IdempotencyUnknown for what is not a class.
func idempotency(word string) decision.Idempotency {
	for class := decision.NonIdempotent; class <= decision.Safe; class++ {
		if class.String() == word {
			return class
		}
	}
	return decision.IdempotencyUnknown
}
