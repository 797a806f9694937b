package redis

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// Defaults of Options.
const (
	DefaultMaxUpstreams = 1024
	DefaultPrefix       = "verdict:"
	DefaultFlush        = 50 * time.Millisecond
	DefaultWait         = 5 * time.Millisecond
	DefaultTimeout      = 250 * time.Millisecond
)

// Options of New. Only Addresses has no default.
type Options struct {
	// Addresses is HOST:PORT of the server, or of the Sentinels where SentinelMaster is set.
	Addresses []string
	// SentinelMaster is the name by which the Sentinels know the master; "" for a standalone server.
	SentinelMaster string
	// Username is of the server's ACL; "" is the default user.
	Username string
	// PasswordFile holds the password, which is read at every connection; a line feed at its end is cut
	// off. "" is no password. Sentinels are asked without one.
	PasswordFile string
	// TLS, if not nil, is used towards the server and the Sentinels.
	TLS *tls.Config
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
	if len(o.Addresses) == 0 {
		return errors.New("redis budget: no address")
	}
	if o.SentinelMaster == "" && len(o.Addresses) > 1 {
		return fmt.Errorf("redis budget: %d addresses, and no name of a Sentinel's master", len(o.Addresses))
	}
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
	if o.MaxUpstreams <= 0 {
		o.MaxUpstreams = DefaultMaxUpstreams
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
