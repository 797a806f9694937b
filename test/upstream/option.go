package upstream

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// group is a set of options that a fault takes.
type group uint8

const (
	answers group = 1 << iota // what its head and body are
	holds                     // hold
	breaks                    // end
	paces                     // every, piece
	goaways                   // code
	drains                    // end=drain, end=no_error
)

// optionGroup says which faults take an option; 0 means all of them.
var optionGroup = map[string]group{
	"delay": 0, "info": 0, "executed": 0, "refused": 0,
	"body": answers, "header": answers, "headers": answers, "trailer": answers, "retry-after": answers,
	"clock": answers, "lies": answers, "envoy-lies": answers, "close": answers, "chunked": answers,
	"end": breaks, "hold": holds,
	"every": paces, "piece": paces,
	"code": goaways,
}

// option reads one word behind a fault's name.
func (f *fault) option(word string, p protocol) error {
	key, value, hasValue := strings.Cut(word, "=")
	key, name, hasName := strings.Cut(key, ":")
	needs, known := optionGroup[key]
	switch {
	case !known:
		return fmt.Errorf("unknown option %q", word)
	case needs != 0 && f.takes&needs == 0:
		return fmt.Errorf("this fault takes no option %q", key)
	case hasName != (key == "header" || key == "trailer"):
		return fmt.Errorf("option %q: want %s", word, optionShape(key))
	case hasValue != !isFlag(key):
		return fmt.Errorf("option %q: want %s", word, optionShape(key))
	}
	if err := f.setOption(key, name, value, p); err != nil {
		return fmt.Errorf("option %q: %w", word, err)
	}
	return nil
}

func isFlag(key string) bool {
	switch key {
	case "executed", "refused", "lies", "envoy-lies", "close", "chunked":
		return true
	}
	return false
}

func optionShape(key string) string {
	switch {
	case isFlag(key):
		return key
	case key == "header" || key == "trailer":
		return key + ":NAME=VALUE"
	}
	return key + "=VALUE"
}

func (f *fault) setOption(key, name, value string, p protocol) (err error) {
	switch key {
	case "executed":
		f.executed = executed
	case "refused":
		f.executed = notExecuted
	case "close":
		f.closing = true
	case "chunked":
		f.chunked = true
	case "lies":
		f.fields = append(f.fields, lies...)
	case "envoy-lies":
		f.fields = append(f.fields, envoyLies...)
	case "delay":
		f.delay, err = parsePause(value)
	case "hold":
		f.hold, err = parsePause(value)
	case "every":
		f.every, err = parsePause(value)
	case "body":
		f.body, err = parseSize(value)
	case "piece":
		if f.piece, err = parseSize(value); err == nil && f.piece == 0 {
			err = fmt.Errorf("must be at least 1")
		}
	case "info":
		var status int
		if status, err = strconv.Atoi(value); err != nil || status < 100 || status > 199 || status == 101 {
			return fmt.Errorf("want 100, or 102 to 199")
		}
		f.info = append(f.info, status)
	case "header", "trailer":
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("not a valid header field")
		}
		if key == "header" {
			f.fields = append(f.fields, field{name, value})
		} else {
			f.trailers = append(f.trailers, field{name, value})
		}
	case "headers":
		var n int
		if n, err = strconv.Atoi(value); err != nil || n < 0 || n > maxHeaders {
			return fmt.Errorf("want a number from 0 to %d", maxHeaders)
		}
		for i := range n {
			f.fields = append(f.fields, field{fmt.Sprintf("x-extra-%d", i+1), "v"})
		}
	case "retry-after":
		if !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("not a valid header field")
		}
		if _, err = dateForm(value, time.Time{}); err == nil {
			f.retryAfter = append(f.retryAfter, value)
		}
	case "clock":
		if f.noDate = value == "none"; !f.noDate {
			f.clock, err = time.ParseDuration(value)
		}
	case "code":
		f.code, err = parseCode(value)
	case "end":
		f.end, err = f.parseEnd(value, p)
	}
	return err
}

func (f *fault) parseEnd(value string, p protocol) (ending, error) {
	early := f.takes&drains != 0
	switch {
	case value == "fin":
		return endFIN, nil
	case value == "rst":
		return endRST, nil
	case value == "stall":
		return endStall, nil
	case value == "drain" && early:
		return endDrain, nil
	case value == "no_error" && early && p == http2Frames:
		return endNoError, nil
	}
	return endUnset, fmt.Errorf("want fin, rst or stall (early: also drain, and in HTTP/2 no_error)")
}

func parsePause(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > maxPause {
		return 0, fmt.Errorf("want a duration from 0 to %v", maxPause)
	}
	return d, nil
}

// parseSize reads a number of bytes, with k, kB, M, MB (powers of 1000) or KiB, MiB (powers of 1024).
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "kKiMB")
	unit, known := map[string]int64{"": 1, "B": 1, "k": 1e3, "kB": 1e3, "KB": 1e3, "M": 1e6, "MB": 1e6,
		"KiB": 1 << 10, "MiB": 1 << 20}[s[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !known || err != nil || n < 0 || n > maxBody/unit {
		return 0, fmt.Errorf("want a size from 0 to %d bytes, such as 300, 64KiB, 2MB", maxBody)
	}
	return n * unit, nil
}

// dateForm expands a Retry-After of the form date:D, rfc850:D, asctime:D (the three HTTP-date forms
// of RFC 9110 section 5.6.7) or epoch:D, each the duration D from now; other values are kept.
func dateForm(value string, now time.Time) (string, error) {
	form, rest, _ := strings.Cut(value, ":")
	layout := map[string]string{"date": http.TimeFormat, "rfc850": "Monday, 02-Jan-06 15:04:05 GMT",
		"asctime": time.ANSIC, "epoch": "epoch"}[form]
	if layout == "" {
		return value, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return "", fmt.Errorf("want %s:DURATION", form)
	}
	at := now.UTC().Add(d)
	if layout == "epoch" {
		return strconv.FormatInt(at.Unix(), 10), nil
	}
	return at.Format(layout), nil
}
