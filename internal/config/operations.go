package config

import (
	"slices"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// operation is one declaration. The classes are ordered: a smaller one is stricter.
type operation struct {
	name    string
	class   decision.Idempotency
	pattern pattern
}

// operations are what one upstream declares. No two patterns conflict, in http.ServeMux's sense.
type operations struct {
	byPattern []operation // whatever is more specific stands first
	byRoute   map[string]*operation
}

func newOperations(byPattern []operation, byRoute map[string]*operation) operations {
	slices.SortStableFunc(byPattern, func(a, b operation) int { return comparePatterns(a.pattern, b.pattern) })
	return operations{byPattern, byRoute}
}

func (o *operations) class(method, path, routeOperation string) (string, decision.Idempotency) {
	return o.match(method, path).class(o.byRoute[routeOperation])
}

// strictest is the least that class returns for any route.
func (o *operations) strictest(method, path string) decision.Idempotency {
	m := o.match(method, path)
	_, least := m.class(nil)
	for _, route := range o.byRoute {
		_, class := m.class(route)
		least = min(least, class)
	}
	return least
}

// match is what the patterns say of a method and a path.
type match struct {
	undeclared decision.Idempotency // the method's own class
	op         *operation           // the declaration that holds, or nil
	least      decision.Idempotency // the strictest class that any pattern gives the method, or Safe
}

func (o *operations) match(method, path string) match {
	m := match{undeclared: decision.MethodClass(method), least: decision.Safe}
	path, plain := plainPath(path)
	for i := range o.byPattern {
		op := &o.byPattern[i]
		if op.pattern.methodResembles(method) {
			m.least = min(m.least, op.class)
		}
		if m.op == nil && plain && op.pattern.matches(method, path) {
			m.op = op
		}
	}
	if m.op == nil {
		return m
	}
	// A less specific pattern that matches was overridden on purpose. One that matches another
	// spelling was not.
	for i := range o.byPattern {
		op := &o.byPattern[i]
		if op.class < m.op.class && op.pattern.resembles(method, path) && !op.pattern.matches(method, path) {
			m.op = op
		}
	}
	return m
}

// class is the stricter of what the patterns and the route's operation (nil: none) say. An unmatched
// path may be another spelling of one that a stricter pattern was written for.
func (m match) class(route *operation) (string, decision.Idempotency) {
	base := operation{class: m.undeclared}
	if route != nil {
		base = *route
	}
	switch {
	case m.op == nil && m.least < max(base.class, m.undeclared):
		return "", decision.NonIdempotent
	case m.op == nil, route != nil && base.class < m.op.class:
		return base.name, base.class
	}
	return m.op.name, m.op.class
}
