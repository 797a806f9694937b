package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// summary is the table at the end.
type summary struct {
	rows [][4]string // what, goal, measured, result
}

// Results of a row.
const (
	met         = "met"
	missed      = "MISSED"
	notMeasured = "NOT MEASURED"
	informative = "informative"
)

// atMost compares the median of several figures with a goal.
func (s *summary) atMost(what string, limit float64, got []float64, unit string) {
	s.judge(what, "at most "+number(limit)+unit, got, unit, median(got) <= limit)
}

// atLeast is the same for a goal that the figures must reach.
func (s *summary) atLeast(what string, limit float64, got []float64, unit string) {
	s.judge(what, "at least "+number(limit)+unit, got, unit, median(got) >= limit)
}

func (s *summary) judge(what, goal string, got []float64, unit string, reached bool) {
	result := missed
	if reached {
		result = met
	}
	s.add(what, goal, number(median(got))+unit+strings.TrimPrefix(spread(got), number(median(got))), result)
}

// inform adds a figure without a goal.
func (s *summary) inform(what, measured string) { s.add(what, "", measured, informative) }

func (s *summary) add(what, goal, measured, result string) {
	s.rows = append(s.rows, [4]string{what, goal, measured, result})
}

func (s *summary) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tgoal\tmeasured\tresult")
	for _, r := range s.rows {
		fmt.Fprintln(w, strings.Join(r[:], "\t"))
	}
	w.Flush()
	count := map[string]int{}
	for _, r := range s.rows {
		count[r[3]]++
	}
	fmt.Fprintf(&out, "\nGoals met: %d, missed: %d.", count[met], count[missed])
	if n := count[notMeasured]; n > 0 {
		fmt.Fprintf(&out, " Sections that could not be measured: %d.", n)
	}
	out.WriteString("\n")
	return out.String()
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.2f", v), ".00")
}

// spread is the median of the figures and, where there are several, between what their middle half lies.
func spread(values []float64) string {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 1 || sorted[0] == sorted[n-1] {
		return number(median(values))
	}
	return fmt.Sprintf("%s (%s to %s)", number(median(values)), number(sorted[n/4]), number(sorted[n-1-n/4]))
}
