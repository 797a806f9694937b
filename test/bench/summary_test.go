package main

import "testing"

func TestSummary(t *testing.T) {
	var s summary
	s.atMost("at the limit", 1.25, []float64{1.3, 1.25, 1.2}, " x")
	s.atMost("above it", 1.25, []float64{1.3, 1.26, 1.2}, " x")
	s.atLeast("below it", 1.3, []float64{1.29}, " x")
	s.inform("no goal", "7 us")
	s.add("waiting", "", "see above", notMeasured)
	const want = `what          goal             measured               result
at the limit  at most 1.25 x   1.25 x (1.20 to 1.30)  met
above it      at most 1.25 x   1.26 x (1.20 to 1.30)  MISSED
below it      at least 1.30 x  1.29 x                 MISSED
no goal                        7 us                   informative
waiting                        see above              NOT MEASURED

Goals met: 1, missed: 2. Sections that could not be measured: 1.
`
	if got := s.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
