package upstream

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// spec says what a fault's name means.
type spec struct {
	protocols protocol
	takes     group
	// args reads what follows the name, separated by colons.
	args func(f *fault, args []string) error
	// defaults sets what the entry may override.
	defaults func(f *fault)
	// atHead: it is played as soon as the header section was read; the others read the whole request.
	atHead func(f *fault) bool
	// refuses: the request is not executed, even if all of it has arrived.
	refuses bool
	// keepsBody: the answer is made of the request's body.
	keepsBody bool
	play      func(p *playing) error
}

func always(*fault) bool { return true }

func modeIsHead(f *fault) bool { return f.mode == "head" }

// specs are all faults by name. The package comment describes them.
var specs = map[string]*spec{
	"ok":     {protocols: both, takes: answers, args: noArgs, play: (*playing).status},
	"status": {protocols: both, takes: answers, args: oneStatus, play: (*playing).status},
	// Who is let in is decided when it is chosen; see guard.
	"guarded": {protocols: both, takes: answers, args: optionalStatus, play: (*playing).status},

	"echo": {protocols: both, takes: answers, args: optionalStatus, keepsBody: true, play: (*playing).echo},

	"reset": {protocols: both, args: oneOf("", "head"), atHead: modeIsHead, defaults: endsBy(endRST),
		play: (*playing).breakOff},
	"fin": {protocols: both, args: oneOf("", "head"), atHead: modeIsHead, defaults: endsBy(endFIN),
		play: (*playing).breakOff},
	"stuck":       {protocols: both, args: noArgs, defaults: endsBy(endStall), play: (*playing).breakOff},
	"not-reading": {protocols: both, args: noArgs, atHead: always, play: (*playing).notReading},
	"garbage":     {protocols: both, takes: holds | breaks, args: noArgs, defaults: endsBy(endFIN), play: (*playing).garbage},
	"half-header": {protocols: both, takes: answers | holds | breaks, args: optionalStatus, defaults: endsBy(endFIN),
		play: (*playing).halfHeader},
	"half-body": {protocols: both, takes: answers | holds | breaks, args: optionalStatus,
		defaults: func(f *fault) { f.end, f.body = endFIN, 1000 }, play: (*playing).halfBody},

	"slow-body": {protocols: both, takes: answers | holds, args: optionalStatus,
		defaults: func(f *fault) { f.hold = time.Second }, play: (*playing).slowBody},
	"trickle": {protocols: both, takes: answers | paces, args: optionalStatus,
		defaults: func(f *fault) { f.body, f.piece, f.every = 100, 10, 100*time.Millisecond },
		play:     (*playing).trickle},
	"early": {protocols: both, takes: answers | holds | breaks | drains, args: optionalStatus, atHead: always, refuses: true,
		defaults: func(f *fault) { f.status, f.end = 503, endDrain }, play: (*playing).early},

	"keepalive-race": {protocols: http1, takes: answers | holds | breaks, args: oneOf("", "read"), defaults: endsBy(endRST),
		play: (*playing).status},

	"grpc": {protocols: both, takes: answers, args: grpcArgs, play: (*playing).grpc},

	"refused": {protocols: http2Frames, args: noArgs, atHead: always, refuses: true,
		defaults: func(f *fault) { f.code = http2.ErrCodeRefusedStream }, play: (*playing).rst},
	"rst": {protocols: http2Frames, takes: answers | holds, args: rstArgs,
		defaults: func(f *fault) { f.body = 1000 }, play: (*playing).rst},
	"goaway": {protocols: http2Frames, takes: answers | holds | breaks | goaways, args: goawayArgs, defaults: endsBy(endFIN),
		atHead: func(f *fault) bool { return f.mode == "below" }, play: (*playing).goaway},
}

func endsBy(end ending) func(*fault) {
	return func(f *fault) { f.end = end }
}

func noArgs(_ *fault, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("takes no argument")
	}
	return nil
}

// oneOf takes at most one argument, one of the given; "" among them means it may be missing.
func oneOf(modes ...string) func(*fault, []string) error {
	return func(f *fault, args []string) error {
		if len(args) == 1 {
			f.mode = args[0]
		}
		if len(args) > 1 || !slices.Contains(modes, f.mode) {
			return fmt.Errorf("wants one of %q", modes)
		}
		return nil
	}
}

func oneStatus(f *fault, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("wants a status")
	}
	return optionalStatus(f, args)
}

func optionalStatus(f *fault, args []string) (err error) {
	switch len(args) {
	case 0:
		return nil
	case 1:
		f.status, err = parseStatus(args[0])
		return err
	}
	return fmt.Errorf("wants one status")
}

func grpcArgs(f *fault, args []string) error {
	if len(args) == 0 || !isNumber(args[0]) {
		return fmt.Errorf("wants a grpc-status")
	}
	f.trailers = []field{{"grpc-status", args[0]}}
	return oneOf("", "trailers")(f, args[1:])
}

func rstArgs(f *fault, args []string) (err error) {
	if len(args) == 0 {
		return fmt.Errorf("wants an HTTP/2 error code")
	}
	if f.code, err = parseCode(args[0]); err != nil {
		return err
	}
	f.mode = "before-headers"
	err = oneOf("before-headers", "after-headers", "after-body", "full")(f, args[1:])
	if f.mode == "before-headers" {
		f.takes &^= answers
	}
	return err
}

func goawayArgs(f *fault, args []string) error {
	if n := len(args); n == 2 && args[1] == "open" {
		f.open, args = true, args[:1]
	}
	if err := oneOf("below", "at", "above")(f, args); err != nil {
		return fmt.Errorf("%w, and optionally :open", err)
	}
	switch {
	case !f.open:
		f.takes &^= answers
	case f.mode == "below":
		f.takes = goaways
	default:
		f.takes &^= holds | breaks
	}
	return nil
}

// lies are header fields by which an upstream might try to speak in Verdict's name.
var lies = []field{
	{"x-verdict-control", "retry"},
	{"x-verdict-id", "lie"},
	{"x-verdict-role", "judge"},
	{"x-verdict-credential", "pending"},
	{"x-verdict-facts", "v1 UF 0 0 0 0 1 - lie lie -"},
	{"x-verdict-details", "upstream_reset_before_response_started{remote_connection_failure}"},
	{"x-retry-verdict", "retry"},
	{"x-retry-reason", "lie"},
	{"x-retry-evidence", "NOT_SENT"},
	{"x-retry-execution", "NOT_EXECUTED"},
	{"x-retry-attempts", "0"},
	{"x-retry-ambiguity-id", "lie"},
}

// envoyLies are header fields of an answer that Envoy's router may take for its own.
var envoyLies = []field{
	{"x-envoy-ratelimited", "true"},
	{"x-envoy-overloaded", "true"},
	{"x-envoy-attempt-count", "9"},
	{"x-envoy-upstream-service-time", "lie"},
	{"x-envoy-retry-on", "5xx"},
}

// LyingHeaderNames are the names that the options "lies" and "envoy-lies" send, in lower case.
func LyingHeaderNames() []string {
	var names []string
	for _, f := range slices.Concat(lies, envoyLies) {
		names = append(names, strings.ToLower(f.name))
	}
	return names
}
