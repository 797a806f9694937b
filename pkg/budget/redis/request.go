package redis

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// A deposit on its way: milli-tokens and the Redis time bucket they are dated in.
type deposit struct{ bucket, milli int64 }

// A token is what a grant is made of.
type token struct {
	source   budget.Source
	local    bool  // of deposits that were not flushed
	epoch    uint8 // core.epochs when it was leased
	bucket   int64 // of Redis: of the oldest deposit, or of the end of a reserve lease's life; of a local one the instant of its oldest deposit
	deadline int64 // monotonic: from here on it must not be spent
}

// A lot is some tokens that are alike.
type lot struct {
	token
	tokens int64
}

// A request is one flush.
type request struct {
	view
	settings budget.Settings
	sequence uint64 // 0 if it brings nothing
	want     int64  // tokens
	deposits []deposit
	returns  []lot
	made     int64 // monotonic: when deposits and returns were put in
	planned  int64 // monotonic: when it was made, or made again
}

func (r *request) args() []string {
	decimal := func(x int64) string { return strconv.FormatInt(x, 10) }
	reset := "0"
	if r.reset {
		reset = "1"
	}
	args := make([]string, 0, 8+2*len(r.deposits)+3*len(r.returns))
	args = append(args, decimal(r.settings.Interval.Milliseconds()), decimal(int64(r.settings.Reserve)),
		strconv.FormatUint(r.sequence, 10), r.epoch, reset, decimal(r.low()), decimal(r.want), decimal(int64(len(r.deposits))))
	for _, d := range r.deposits {
		args = append(args, decimal(d.bucket), decimal(d.milli))
	}
	for _, l := range r.returns {
		source := "e"
		if l.source == budget.SourceReserve {
			source = "r"
		}
		args = append(args, source, decimal(l.bucket), decimal(l.tokens))
	}
	return args
}

// low is what the script compares with its clock: it may lie below the bound by the margin, so that
// no slow drift looks like a step.
func (r *request) low() int64 {
	if !r.anchor.known() {
		return 0
	}
	return r.anchor.low(r.planned) - stepMargin
}

// A reply is what the script answers; see script.lua.
type reply struct {
	time    int64
	epoch   string
	since   int64
	counted bool
	earned  int64 // milli-tokens left
	reserve int64 // tokens left
	lots    []lot // source, bucket, tokens
}

var errReply = errors.New("a reply that the script does not give")

func readReply(fields []any) (*reply, error) {
	if len(fields) < 6 || len(fields)%3 != 0 {
		return nil, fmt.Errorf("%w: %d fields", errReply, len(fields))
	}
	var bad error
	number := func(i int) int64 {
		n, ok := fields[i].(int64)
		if !ok || n < 0 {
			bad = fmt.Errorf("%w: field %d is %v", errReply, i, fields[i])
		}
		return n
	}
	r := &reply{time: number(0), since: number(2), counted: number(3) == 1, earned: number(4), reserve: number(5)}
	r.epoch, _ = fields[1].(string)
	if r.epoch == "" || r.time == 0 {
		bad = fmt.Errorf("%w: epoch %q, time %d", errReply, r.epoch, r.time)
	}
	for i := 6; i < len(fields); i += 3 {
		l := lot{token{bucket: number(i + 1)}, number(i + 2)}
		switch fields[i] {
		case "e":
			l.source = budget.SourceEarned
		case "r":
			l.source = budget.SourceReserve
		default:
			bad = fmt.Errorf("%w: source %v", errReply, fields[i])
		}
		r.lots = append(r.lots, l)
	}
	return r, bad
}
