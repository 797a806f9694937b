package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file, and where.
type Problem struct {
	File string
	// Line and Column count from 1; 0 means that the place is not known.
	Line, Column int
	// Text begins with the field, as in "upstreams[0].policy.max_attempts: ...", where there is one.
	Text string
}

// Error is "FILE:LINE:COLUMN: TEXT".
func (p Problem) Error() string {
	var place strings.Builder
	place.WriteString(p.File)
	for _, n := range []int{p.Line, p.Column} {
		if n == 0 {
			break
		}
		fmt.Fprintf(&place, ":%d", n)
	}
	return place.String() + ": " + p.Text
}

// Problems is every Problem of a file, in the file's order. As an error it has one line for each.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// err returns nil where there is no problem.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}
