package decision

import (
	"math"
	"strings"
	"time"
)

// ParseRetryAfter returns the wait that a response's Retry-After lines ask for, at least 0; 0 is
// "absent".
//
// A line is delta-seconds or one of the three forms of HTTP-date (RFC 9110 sections 10.2.3 and 5.6.7).
// A date is measured against date, the response's own Date header, so that the clocks of upstream and
// proxy need not agree; where that is no valid HTTP-date, against now. Of several lines, or of several
// values in one line (a proxy may have joined them with commas), the largest counts. Negative and
// fractional numbers, and whatever else is neither form, are absent; a date in the past is 0. A number
// too large for a time.Duration gives the largest one, which is beyond any cap.
func ParseRetryAfter(lines []string, date string, now time.Time) time.Duration {
	if len(lines) == 0 {
		return 0
	}
	base := now
	if t, ok := parseHTTPDate(trimBlanks(date), now); ok {
		base = t
	}
	var longest time.Duration
	for _, line := range lines {
		longest = max(longest, longestDelay(line, base))
	}
	return longest
}

// longestDelay reads a line that may hold several values. An HTTP-date may contain a comma itself, so
// each part is tried alone and together with the next one.
func longestDelay(line string, base time.Time) time.Duration {
	var longest time.Duration
	for line != "" {
		part, rest, _ := strings.Cut(line, ",")
		next, _, _ := strings.Cut(rest, ",")
		longest = max(longest, parseDelay(part, base), parseDelay(part+","+next, base))
		line = rest
	}
	return longest
}

// parseDelay reads one value. A date in the past is a negative delay, garbage is none.
func parseDelay(value string, base time.Time) time.Duration {
	value = trimBlanks(value)
	if delay, ok := parseDeltaSeconds(value); ok {
		return delay
	}
	if t, ok := parseHTTPDate(value, base); ok {
		return t.Sub(base) // saturates
	}
	return 0
}

// parseDeltaSeconds reads digits and saturates; none are 0.
func parseDeltaSeconds(digits string) (time.Duration, bool) {
	const most = math.MaxInt64 / time.Second
	var seconds time.Duration
	for i := range len(digits) {
		c := digits[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		seconds = min(10*seconds+time.Duration(c-'0'), most+1) // far from wrapping: most is below 1e10
	}
	if seconds > most {
		return math.MaxInt64, true
	}
	return seconds * time.Second, true
}

// The forms of HTTP-date. The first two have a fixed length, the third one behind the day's name:
// without that check time.Parse would accept fractions of a second and hours of one digit.
const (
	imfFixdate  = "Mon, 02 Jan 2006 15:04:05 GMT"
	asctimeDate = "Mon Jan _2 15:04:05 2006"
	rfc850Date  = "Monday, 02-Jan-06 15:04:05 GMT"
)

// parseHTTPDate reads any of the three forms. reference serves the two-digit years of RFC 850.
func parseHTTPDate(s string, reference time.Time) (time.Time, bool) {
	// A leap second is valid HTTP, and unknown to package time.
	before, after, leap := strings.Cut(s, ":60 ")
	if leap {
		s = before + ":59 " + after
	}
	var layout string
	switch comma := strings.IndexByte(s, ','); {
	case comma < 0 && len(s) == len(asctimeDate):
		layout = asctimeDate
	case comma == len("Mon") && len(s) == len(imfFixdate):
		layout = imfFixdate
	case comma >= len("Monday") && len(s)-comma == len(rfc850Date)-len("Monday"):
		layout = rfc850Date
	}
	if layout == "" { // an error of time.Parse costs more than all the rest
		return time.Time{}, false
	}
	t, err := time.Parse(layout, s)
	if err != nil {
		return time.Time{}, false
	}
	if layout == rfc850Date {
		t = inCenturyOf(t, reference)
	}
	if leap {
		t = t.Add(time.Second)
	}
	return t, true
}

// inCenturyOf replaces the century that package time chose for a two-digit year: a time that appears
// to be more than 50 years in the future is the most recent one in the past with the same two digits
// (RFC 9110 section 5.6.7).
func inCenturyOf(t, reference time.Time) time.Time {
	latest := reference.AddDate(50, 0, 0)
	back := ((latest.Year()-t.Year())%100 + 100) % 100
	years := latest.Year() - back - t.Year()
	if t.AddDate(years, 0, 0).After(latest) {
		years -= 100
	}
	return t.AddDate(years, 0, 0)
}

func trimBlanks(s string) string { return strings.Trim(s, " \t") }
