package decision

import (
	"fmt"
	"strings"
	"testing"
)

// situation is everything that Decide is given.
type situation struct {
	facts  Facts
	policy Policy
	r      float64
}

func (s situation) decide() Decision { return Decide(s.facts, s.policy, s.r) }

// axis is one dimension of the space of situations.
type axis struct {
	name   string
	values []any
	set    func(s *situation, i int)
}

func along[V any](name string, set func(*situation, V), values ...V) axis {
	a := axis{name: name, set: func(s *situation, i int) { set(s, values[i]) }}
	for _, v := range values {
		a.values = append(a.values, v)
	}
	return a
}

func (a axis) index(value any) int {
	for i, v := range a.values {
		if v == value {
			return i
		}
	}
	panic(fmt.Sprintf("axis %s has no value %v", a.name, value))
}

// grid is the product of its axes, the first one changing slowest, with the decision of every point.
type grid struct {
	base      situation
	axes      []axis
	strides   map[string]int
	decisions []Decision
}

// enumerate asks for a decision at every combination of the axes' values.
func enumerate(base situation, axes ...axis) grid {
	g := grid{base: base, axes: axes, strides: map[string]int{}}
	size := 1
	for i := len(axes) - 1; i >= 0; i-- {
		g.strides[axes[i].name] = size
		size *= len(axes[i].values)
	}
	g.decisions = make([]Decision, size)
	g.each(func(i int, s *situation) { g.decisions[i] = s.decide() })
	return g
}

func (g grid) String() string {
	var names []string
	for _, a := range g.axes {
		names = append(names, fmt.Sprintf("%s(%d)", a.name, len(a.values)))
	}
	return fmt.Sprintf("%d combinations: %s", len(g.decisions), strings.Join(names, " x "))
}

// each visits every point; the situation is reused between calls.
func (g grid) each(visit func(i int, s *situation)) {
	s := g.base
	digits := make([]int, len(g.axes))
	for _, a := range g.axes {
		a.set(&s, 0)
	}
	for i := range g.decisions {
		visit(i, &s)
		for d := len(digits) - 1; d >= 0; d-- {
			digits[d]++
			if digits[d] < len(g.axes[d].values) {
				g.axes[d].set(&s, digits[d])
				break
			}
			digits[d] = 0
			g.axes[d].set(&s, 0)
		}
	}
}

func (g grid) axis(name string) axis {
	for _, a := range g.axes {
		if a.name == name {
			return a
		}
	}
	panic("no axis " + name)
}

// at rebuilds the situation of a point.
func (g grid) at(point int) situation {
	s := g.base
	for _, a := range g.axes {
		a.set(&s, point/g.strides[a.name]%len(a.values))
	}
	return s
}

// compare visits every pair of points that differ only in the named axis, where it is one on the
// first and other on the second. It stops at the first pair of which the law is not true.
func (g grid) compare(t *testing.T, name string, one, other any, law func(one, other int) bool) {
	t.Helper()
	a, stride := g.axis(name), g.strides[name]
	i, j := a.index(one), a.index(other)
	for point := range g.decisions {
		if point/stride%len(a.values) != i {
			continue
		}
		if second := point + (j-i)*stride; !law(point, second) {
			t.Errorf("%s from %v to %v\n%+v\n%+v\nat %+v", name, one, other,
				g.decisions[point], g.decisions[second], g.at(point))
			return
		}
	}
}

// neverLifts says: going from a better value to a worse one never turns a no into a retry. Points for
// which where is false are left out; nil leaves out none.
func (g grid) neverLifts(t *testing.T, where func(situation) bool, name string, fromBestToWorst ...any) {
	t.Helper()
	for i, worse := range fromBestToWorst {
		for _, better := range fromBestToWorst[:i] {
			g.compare(t, name, better, worse, func(one, other int) bool {
				v := g.decisions[one].Verdict
				lifted := (v == Denied || v == Ambiguous) && g.decisions[other].Verdict == Retry
				return !lifted || where != nil && !where(g.at(one))
			})
		}
	}
}

// always says that every decision obeys the law. It stops at the first that does not.
func (g grid) always(t *testing.T, law func(s *situation, d Decision) bool) {
	t.Helper()
	failed := false
	g.each(func(i int, s *situation) {
		if !failed && !law(s, g.decisions[i]) {
			failed = true
			t.Errorf("%+v\nat %+v", g.decisions[i], *s)
		}
	})
}
