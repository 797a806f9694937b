package decision

import (
	"math"
	"strings"
	"testing"
	"time"
)

const longest = time.Duration(math.MaxInt64)

// now is the proxy's clock, upstreamDate an upstream's that is an hour ahead of it.
var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

const upstreamDate = "Sun, 01 Mar 2026 13:00:00 GMT"

func TestParseRetryAfter(t *testing.T) {
	for _, tc := range []struct {
		teaches string
		lines   []string
		date    string
		want    time.Duration
	}{
		{"no line", nil, "", 0},
		{"an empty line", []string{""}, "", 0},
		{"blanks only", []string{" \t "}, "", 0},
		{"zero", []string{"0"}, "", 0},
		{"seconds", []string{"120"}, "", 2 * time.Minute},
		{"blanks around", []string{" \t7 "}, "", 7 * time.Second},
		{"leading zeros", []string{"000000000000000000000000000007"}, "", 7 * time.Second},

		{"negative", []string{"-5"}, "", 0},
		{"a sign is no digit", []string{"+5"}, "", 0},
		{"a fraction", []string{"1.5"}, "", 0},
		{"an exponent", []string{"1e3"}, "", 0},
		{"hexadecimal", []string{"0x10"}, "", 0},
		{"digits of another script", []string{"５"}, "", 0},
		{"a unit", []string{"5s"}, "", 0},
		{"a blank inside", []string{"1 2"}, "", 0},
		{"words", []string{"soon"}, "", 0},
		{"a NUL", []string{"5\x00"}, "", 0},

		{"the largest second that fits", []string{"9223372036"}, "", 9223372036 * time.Second},
		{"the first that would wrap", []string{"9223372037"}, "", longest},
		{"would wrap to a small positive number", []string{"18446744074"}, "", longest},
		{"thirty digits", []string{strings.Repeat("9", 30)}, "", longest},
		{"300 digits", []string{strings.Repeat("1", 300)}, "", longest},
		{"an epoch is a number of seconds", []string{"1700000000"}, "", 1700000000 * time.Second},

		{"IMF-fixdate", []string{"Sun, 01 Mar 2026 12:00:30 GMT"}, "", 30 * time.Second},
		{"RFC 850", []string{"Sunday, 01-Mar-26 12:00:30 GMT"}, "", 30 * time.Second},
		{"asctime", []string{"Sun Mar  1 12:00:30 2026"}, "", 30 * time.Second},
		{"asctime, two digits of day", []string{"Thu Mar 12 12:00:00 2026"}, "", 11 * 24 * time.Hour},
		{"the longest day name", []string{"Wednesday, 04-Mar-26 12:00:00 GMT"}, "", 72 * time.Hour},
		{"blanks around a date", []string{"  Sun, 01 Mar 2026 12:00:30 GMT\t"}, "", 30 * time.Second},
		{"a leap second", []string{"Sun, 01 Mar 2026 12:00:60 GMT"}, "", time.Minute},
		{"a leap second in asctime", []string{"Sun Mar  1 12:00:60 2026"}, "", time.Minute},
		{"a wrong day of the week is still a date", []string{"Mon, 01 Mar 2026 12:00:30 GMT"}, "", 30 * time.Second},
		{"the past", []string{"Sun, 01 Mar 2026 11:59:59 GMT"}, "", 0},
		{"the far past", []string{"Mon, 01 Jan 0001 00:00:00 GMT"}, "", 0},
		{"the far future", []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, "", longest},

		{"another zone", []string{"Sun, 01 Mar 2026 12:00:30 EST"}, "", 0},
		{"a numeric zone", []string{"Sun, 01 Mar 2026 12:00:30 +0000"}, "", 0},
		{"another zone in RFC 850", []string{"Sunday, 01-Mar-26 12:00:30 EST"}, "", 0},
		{"a fraction of a second", []string{"Sun, 01 Mar 2026 12:00:30.5 GMT"}, "", 0},
		{"a fraction of a second in RFC 850", []string{"Sunday, 01-Mar-26 12:00:30.5 GMT"}, "", 0},
		{"a fraction of a second in asctime", []string{"Sun Mar  1 12:00:30.5 2026"}, "", 0},
		{"an hour of one digit in RFC 850", []string{"Monday, 02-Mar-26 9:00:30 GMT"}, "", 0},
		{"an hour of one digit in asctime", []string{"Mon Mar  2 9:00:30 2026"}, "", 0},
		{"an hour of one digit", []string{"Mon, 02 Mar 2026 9:00:30 GMT"}, "", 0},
		{"a day of one digit", []string{"Mon, 2 Mar 2026 12:00:30 GMT"}, "", 0},
		{"a day that does not exist", []string{"Mon, 30 Feb 2026 12:00:30 GMT"}, "", 0},
		{"an hour that does not exist", []string{"Sun, 01 Mar 2026 24:00:00 GMT"}, "", 0},
		{"half a date", []string{"Sun, 01 Mar 2026"}, "", 0},
		{"RFC 3339", []string{"2026-03-01T12:00:30Z"}, "", 0},
		{"something behind a date", []string{"Sun, 01 Mar 2026 12:00:30 GMT+1"}, "", 0},

		{"against the upstream's clock", []string{"Sun, 01 Mar 2026 13:00:30 GMT"}, upstreamDate, 30 * time.Second},
		{"past on the upstream's clock", []string{"Sun, 01 Mar 2026 12:59:59 GMT"}, upstreamDate, 0},
		{"seconds need no clock", []string{"30"}, upstreamDate, 30 * time.Second},
		{"Date in an old form", []string{"Sun, 01 Mar 2026 13:00:30 GMT"}, "Sunday, 01-Mar-26 13:00:00 GMT", 30 * time.Second},
		{"Date is garbage", []string{"Sun, 01 Mar 2026 12:00:30 GMT"}, "now", 30 * time.Second},
		{"Date is a number", []string{"Sun, 01 Mar 2026 12:00:30 GMT"}, "0", 30 * time.Second},
		{"two Dates", []string{"Sun, 01 Mar 2026 12:00:30 GMT"}, upstreamDate + ", " + upstreamDate, 30 * time.Second},

		{"the larger of two lines", []string{"3", "8"}, "", 8 * time.Second},
		{"in any order", []string{"8", "3"}, "", 8 * time.Second},
		{"a number and a date", []string{"3", "Sun, 01 Mar 2026 12:00:30 GMT"}, "", 30 * time.Second},
		{"garbage beside a number", []string{"soon", "3", "-9"}, "", 3 * time.Second},
		{"two numbers joined", []string{"3, 8,5"}, "", 8 * time.Second},
		{"empty elements", []string{",,3,,"}, "", 3 * time.Second},
		{"a date joined before a number", []string{"Sun, 01 Mar 2026 12:00:30 GMT, 3"}, "", 30 * time.Second},
		{"a date joined behind a number", []string{"3,Sun, 01 Mar 2026 12:00:30 GMT"}, "", 30 * time.Second},
		{"a smaller date joined behind a number", []string{"50,Sun, 01 Mar 2026 12:00:30 GMT"}, "", 50 * time.Second},
		{"two dates joined", []string{"Sun, 01 Mar 2026 12:00:30 GMT, Sunday, 01-Mar-26 12:00:50 GMT"}, "", 50 * time.Second},
		{"garbage joined before a date", []string{"soon, Sun, 01 Mar 2026 12:00:30 GMT"}, "", 30 * time.Second},
		{"a thousands separator asks for something at least", []string{"1,000"}, "", time.Second},
	} {
		t.Run(tc.teaches, func(t *testing.T) {
			if got := ParseRetryAfter(tc.lines, tc.date, now); got != tc.want {
				t.Errorf("ParseRetryAfter(%q, %q) = %v, want %v", tc.lines, tc.date, got, tc.want)
			}
		})
	}
}

// TestTwoDigitYear: more than 50 years ahead is the most recent past year with these digits.
func TestTwoDigitYear(t *testing.T) {
	for _, tc := range []struct {
		reference, date string
		want            int
	}{
		{"2026-03-01", "Sunday, 06-Nov-94 08:49:37 GMT", 1994},
		{"2026-03-01", "Sunday, 01-Mar-26 12:00:30 GMT", 2026},
		{"2026-03-01", "Sunday, 28-Feb-76 12:00:00 GMT", 2076}, // just under 50 years ahead
		{"2026-03-01", "Sunday, 02-Mar-76 12:00:00 GMT", 1976}, // just over
		{"2026-03-01", "Sunday, 01-Jan-00 00:00:00 GMT", 2000},
		{"1999-12-31", "Saturday, 01-Jan-00 00:00:05 GMT", 2000},
		{"2099-12-31", "Friday, 01-Jan-00 00:00:05 GMT", 2100},
		{"1994-11-06", "Sunday, 06-Nov-94 08:49:37 GMT", 1994},
		{"0001-01-01", "Monday, 01-Jan-07 00:00:00 GMT", 7},
	} {
		reference, err := time.Parse(time.DateOnly, tc.reference)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := parseHTTPDate(tc.date, reference); !ok || got.Year() != tc.want {
			t.Errorf("in %s %q is of the year %d (%t), want %d", tc.reference, tc.date, got.Year(), ok, tc.want)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"", "0", "120", "-5", "1.5", "9223372037", "18446744074", "1700000000", "3, 8",
		"Sun, 01 Mar 2026 12:00:30 GMT", "Sunday, 01-Mar-26 12:00:30 GMT", "Sun Mar  1 12:00:30 2026",
		"3,Sun, 01 Mar 2026 12:00:60 GMT, x",
	} {
		f.Add(seed, "7", upstreamDate, int64(1772366400))
		f.Add("7", seed, seed, int64(math.MinInt64))
	}
	f.Fuzz(func(t *testing.T, a, b, date string, unix int64) {
		clock := time.Unix(unix, 0)
		both := ParseRetryAfter([]string{a, b}, date, clock)
		if both < 0 {
			t.Errorf("negative wait %v", both)
		}
		if one := ParseRetryAfter([]string{a}, date, clock); one > both {
			t.Errorf("%v with one line, %v with one more", one, both)
		}
	})
}
