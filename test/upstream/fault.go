package upstream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// Bounds of a script's numbers: far above what a test needs, low enough that a typing error neither
// fills the memory nor keeps a connection for hours.
const (
	maxBody    = 1 << 30
	maxHeaders = 1000
	maxPause   = 10 * time.Minute
)

// protocol is a set of HTTP versions.
type protocol uint8

const (
	http1 protocol = 1 << iota
	http2Frames
	both = http1 | http2Frames
)

func (p protocol) String() string {
	switch p {
	case http1:
		return "HTTP/1.1"
	case http2Frames:
		return "HTTP/2"
	}
	return "HTTP"
}

// ending says how an exchange that was broken off ends on the wire.
type ending uint8

const (
	endUnset   ending = iota
	endFIN            // an orderly close: FIN
	endRST            // SO_LINGER 0: RST
	endStall          // nothing more is read or written; the connection stays open
	endDrain          // early answers only: the rest of the request is read
	endNoError        // HTTP/2 early answers only: RST_STREAM NO_ERROR (RFC 9113 section 8.1)
)

// execution says whether a script overrides what a fault does by itself.
type execution uint8

const (
	executionUnset execution = iota
	executed
	notExecuted
)

// field is one header line as it is to be written.
type field struct{ name, value string }

// fault is one entry of a script: what to play for one hit.
type fault struct {
	text  string // the entry as it was written
	spec  *spec
	takes group // the options that make sense with these arguments

	status int           // of the head that it sends
	code   http2.ErrCode // rst, goaway
	mode   string        // the fault's last argument: head, read, below, at, above, after-headers, ...
	open   bool          // goaway: the connection stays open

	info     []int
	delay    time.Duration
	executed execution

	body       int64 // bytes; -1 = the fault's own text
	fields     []field
	trailers   []field
	retryAfter []string // expanded when they are sent; see dateForm
	clock      time.Duration
	noDate     bool
	closing    bool
	chunked    bool

	end   ending
	hold  time.Duration
	every time.Duration
	piece int64
}

// scriptError names the entry of a script that could not be read.
type scriptError struct {
	entry int // from 1
	text  string
	why   string
}

func (e *scriptError) Error() string {
	return fmt.Sprintf("x-fault: entry %d %q: %s", e.entry, e.text, e.why)
}

// parseScript reads a list of faults for requests of protocol p. An empty script is the fault ok.
// Every entry is checked, whichever one is going to be played.
func parseScript(script string, p protocol) ([]fault, error) {
	if strings.TrimSpace(script) == "" {
		return []fault{{text: "ok", spec: specs["ok"], status: 200, body: -1}}, nil
	}
	entries, err := splitScript(script)
	if err != nil {
		return nil, err
	}
	faults := make([]fault, len(entries))
	for i, words := range entries {
		text := strings.Join(words, " ")
		if faults[i], err = parseEntry(words, p); err != nil {
			return nil, &scriptError{entry: i + 1, text: text, why: err.Error()}
		}
		faults[i].text = text
	}
	return faults, nil
}

// splitScript cuts a script into entries (by comma or semicolon) and these into words (by blanks).
// Double quotes take both away from what they enclose.
func splitScript(script string) ([][]string, error) {
	entries := [][]string{nil}
	var word strings.Builder
	inWord, quoted := false, false
	endWord := func() {
		if inWord {
			last := len(entries) - 1
			entries[last] = append(entries[last], word.String())
		}
		word.Reset()
		inWord = false
	}
	for i := range len(script) {
		b := script[i]
		switch {
		case b == '"':
			quoted, inWord = !quoted, true
		case quoted:
			word.WriteByte(b)
		case b == ',' || b == ';':
			endWord()
			entries = append(entries, nil)
		case b == ' ' || b == '\t':
			endWord()
		default:
			inWord = true
			word.WriteByte(b)
		}
	}
	if quoted {
		return nil, &scriptError{entry: len(entries), text: word.String(), why: "the quote is not closed"}
	}
	endWord()
	return entries, nil
}

func parseEntry(words []string, p protocol) (fault, error) {
	f := fault{body: -1, status: 200}
	if len(words) == 0 {
		return f, fmt.Errorf("is empty")
	}
	name, args := words[0], []string(nil)
	if i := strings.IndexByte(name, ':'); i >= 0 {
		name, args = name[:i], strings.Split(name[i+1:], ":")
	}
	options := words[1:]
	switch {
	case isNumber(name): // 503
		name, args = "status", []string{name}
	case len(args) == 0 && len(options) > 0 && isNumber(options[0]): // status 503
		args, options = options[:1], options[1:]
	}
	f.spec = specs[name]
	if f.spec == nil {
		return f, fmt.Errorf("unknown fault %q; known: %s", name, strings.Join(faultNames(), ", "))
	}
	if f.spec.protocols&p == 0 {
		return f, fmt.Errorf("%s only", f.spec.protocols)
	}
	f.takes = f.spec.takes
	if f.spec.defaults != nil {
		f.spec.defaults(&f)
	}
	if err := f.spec.args(&f, args); err != nil {
		return f, err
	}
	for _, word := range options {
		if err := f.option(word, p); err != nil {
			return f, err
		}
	}
	return f, nil
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func faultNames() []string {
	names := make([]string, 0, len(specs))
	for name := range specs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// executes says whether the fault counts as executed once the request has arrived completely. The
// statuses that say "I did not do it" are true by default; the option "executed" makes them lie.
func (f *fault) executes() bool {
	switch f.executed {
	case executed:
		return true
	case notExecuted:
		return false
	}
	switch f.status {
	case 401, 408, 421, 425, 429:
		return false
	}
	return !f.spec.refuses
}

func parseStatus(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 999 {
		return 0, fmt.Errorf("status %q is not a number from 0 to 999", s)
	}
	return n, nil
}

// parseCode reads an HTTP/2 error code, by its name (RFC 9113 section 7) or its number.
func parseCode(s string) (http2.ErrCode, error) {
	name := strings.ToUpper(strings.ReplaceAll(s, "-", "_"))
	for code := http2.ErrCodeNo; code <= http2.ErrCodeHTTP11Required; code++ {
		if code.String() == name {
			return code, nil
		}
	}
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no HTTP/2 error code", s)
	}
	return http2.ErrCode(n), nil
}
