package redis

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/internal/accounts"
	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
)

// Defaults of Options.
const (
	DefaultMaxUpstreams = accounts.DefaultMax
	DefaultPrefix       = "verdict:"
	DefaultFlush        = 50 * time.Millisecond
	DefaultWait         = 5 * time.Millisecond
	DefaultTimeout      = 250 * time.Millisecond
)

// Options of New. Only Server has no default.
type Options struct {
	// Server is where the server is.
	Server conn.Options
	// Prefix begins every key, so that fleets that must not share a budget can share a server.
	Prefix string

	// Flush is how often deposits are flushed and unused tokens go back: DefaultFlush if it is 0. It is
	// at least 10ms, for the sake of the server.
	Flush time.Duration
	// Wait is how long a decision waits for a lease at most: DefaultWait if it is 0.
	Wait time.Duration
	// Timeout is how long a call waits for its reply before the process counts as cut off:
	// DefaultTimeout if it is 0.
	Timeout time.Duration

	// MaxUpstreams is how many accounts there are beside the shared one; DefaultMaxUpstreams if <= 0.
	MaxUpstreams int
	// Clock is monotonic nanoseconds; nil is the process's monotonic clock.
	Clock func() int64
	// Log, if not nil, gets every event before its effect can be seen: see budget.EventLog.
	Log *budget.EventLog

	// Logger gets a line when the process is cut off, one when that ends, and one where the server's
	// settings endanger the law; nil for none.
	Logger *slog.Logger
	// OnCall, OnLocalGrant and OnConnected, if not nil, are told of every call to the server, of every
	// grant that this process's own deposits paid for, and of every change between cut off and not.
	// They may be called with a lock held, and must not call the budget.
	OnCall       func(d time.Duration, err error)
	OnLocalGrant func()
	OnConnected  func(connected bool)

	process string // a name that no process has had before
}

func (o *Options) fill() error {
	o.defaults()
	if o.Flush < 10*time.Millisecond || o.Wait < 0 || o.Timeout < 0 {
		return fmt.Errorf("redis budget: flush %v (at least 10ms), wait %v, timeout %v", o.Flush, o.Wait, o.Timeout)
	}
	return nil
}

func (o *Options) defaults() {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Flush == 0 {
		o.Flush = DefaultFlush
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Clock == nil {
		o.Clock = monotonic
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	o.process = hex.EncodeToString(id[:])
}

var base = time.Now()

// monotonic reads only the monotonic half of the clock.
func monotonic() int64 { return int64(time.Since(base)) }
