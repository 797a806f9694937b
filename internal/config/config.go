// Package config holds what the operator declared: the one YAML file of api/proto/retry/v1/config.proto,
// read, checked and resolved against the defaults.
//
// A Config never changes after it was made, so that it can stand behind an atomic pointer and be
// read by any number of goroutines.
package config

import (
	"io"
	"maps"
	"os"
	"regexp"
	"slices"

	"buf.build/go/protoyaml"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// Config says what holds for each upstream.
type Config struct {
	undeclared *Upstream
	upstreams  []*Upstream // in the file's order
	byCluster  map[string]*Upstream
	resolved   *retryv1.Config
	warnings   Problems
	empty      bool
	past       past
}

// Warnings are what a file that is valid says all the same and its operator should know.
func (c *Config) Warnings() Problems { return c.warnings }

// Default returns what holds with no file: decision.DefaultPolicy, budget.DefaultSettings, no
// declared operation.
func Default() *Config {
	c, err := resolve(&document{})
	if err != nil {
		panic(err) // TestDefault
	}
	return c
}

// Load reads the file at path; "" means Default. An error of the file's content is a Problems.
func Load(path string) (*Config, error) {
	if path == "" {
		return Default(), nil
	}
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Read returns a file's content; of one that is too large, so much of it that Parse says so.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
}

// Parse reads a file's content; name stands in front of each problem. Nothing but blanks and comments
// means Default. An error is a Problems, and then there is no Config.
func Parse(name string, data []byte) (*Config, error) {
	c, err := resolve(read(name, data))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Empty reports whether the file had nothing but blanks and comments.
func (c *Config) Empty() bool { return c.empty }

// Message returns what was understood, the defaults written out. It must not be changed.
func (c *Config) Message() *retryv1.Config { return c.resolved }

// YAML returns what was understood, the defaults written out: a file that means the same.
func (c *Config) YAML() ([]byte, error) {
	out, err := protoyaml.MarshalOptions{Indent: 2, UseProtoNames: true, EmitUnpopulated: true}.Marshal(c.resolved)
	return nullField.ReplaceAll(out, nil), err
}

// nullField is a message that is not there, which a file says by leaving it out, as it does with
// allowed_clients.
var nullField = regexp.MustCompile(`(?m)^ *(?:[a-z_]+: null|allowed_clients: \[\])\n`)

// Upstream returns what holds for Envoy's cluster of that name; what holds for every upstream where
// none was declared. It is never nil.
func (c *Config) Upstream(cluster string) *Upstream {
	if u, ok := c.byCluster[cluster]; ok {
		return u
	}
	return c.undeclared
}

// Clusters returns the declared clusters in the file's order.
func (c *Config) Clusters() []string {
	var names []string
	for _, u := range c.upstreams {
		names = append(names, u.clusters...)
	}
	return names
}

// RouteOperations returns every declared route_operation, sorted, each once.
func (c *Config) RouteOperations() []string {
	var names []string
	for _, u := range c.upstreams {
		names = slices.AppendSeq(names, maps.Keys(u.operations.byRoute))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Strictest returns the strictest class that Upstream.Operation can give to method and path, for any
// upstream, declared or not, and any route: it is the class of a request of which neither is known.
func (c *Config) Strictest(method, path string) decision.Idempotency {
	strictest := decision.MethodClass(method)
	for _, u := range c.upstreams {
		strictest = min(strictest, u.operations.strictest(method, path))
	}
	return strictest
}

// Upstream is what holds for one entry of the file, or for every upstream without one.
type Upstream struct {
	clusters   []string
	policy     decision.Policy
	budget     budget.Settings
	ambiguous  int
	shadow     bool
	operations operations
	credential *retryv1.CredentialSource
}

// Name is the entry's first cluster, "" where none was declared.
func (u *Upstream) Name() string {
	if len(u.clusters) == 0 {
		return ""
	}
	return u.clusters[0]
}

// Policy returns the rules' numbers.
func (u *Upstream) Policy() decision.Policy { return u.policy }

// Budget returns the settings of the account of each of the entry's clusters.
func (u *Upstream) Budget() budget.Settings { return u.budget }

// AmbiguousStatus is the status, 500 to 599, of Envoy's own local replies whose outcome is uncertain;
// 0 means that Envoy's own status is kept.
func (u *Upstream) AmbiguousStatus() int { return u.ambiguous }

// Shadow reports whether decisions on an upstream's answers are only counted, logged and entered. "", an
// upstream that is not known, is in the shadow only where all are.
func (c *Config) Shadow(cluster string) bool {
	if cluster != "" {
		return c.Upstream(cluster).shadow
	}
	lit := func(u *Upstream) bool { return !u.shadow }
	return c.undeclared.shadow && !slices.ContainsFunc(c.upstreams, lit)
}

// Operation returns the declared operation's name, "" where none counted, and the request's class
// before its key was looked at (decision.Idempotency.WithKey does that).
//
// path is :path as the client sent it, the query included, cut at MaxPath bytes or whole. routeOperation is
// the route's metadata verdict:operation, "" where there is none. A declaration loosens only on a
// full match; where any declaration tightens the method, a path that no pattern matches is
// non_idempotent. Of the most specific pattern and the route's operation the stricter one wins.
func (u *Upstream) Operation(method, path, routeOperation string) (name string, class decision.Idempotency) {
	return u.operations.class(method, path, routeOperation)
}
