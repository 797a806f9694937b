package budget

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Kind says what an Event is.
type Kind string

const (
	KindDeposit Kind = "deposit"
	KindGrant   Kind = "grant"
	KindReturn  Kind = "return"
)

// An Event is one line of the event log.
type Event struct {
	Mono    int64  `json:"mono_ns"` // monotonic nanoseconds of the process, never falling within an account
	Process string `json:"process"` // one lifetime of one process
	Account string `json:"account"` // the upstream; "" is the shared account
	Kind    Kind   `json:"event"`
	Firsts  int    `json:"firsts,omitempty"` // deposit: first attempts
	Milli   int64  `json:"milli"`            // milli-tokens paid in, spent, or given back
	Source  Source `json:"source,omitempty"` // grant, return
	Grant   string `json:"grant,omitempty"`  // grant, return: unique in (process, account)

	// Bounds of the Redis server's time in microseconds; absent from the memory backend's events.
	RedisLow  int64 `json:"redis_low_us,omitempty"`
	RedisHigh int64 `json:"redis_high_us,omitempty"`
}

// An EventLog writes events as NDJSON, one Write call each, with no buffer in between. A backend
// writes an event before anybody can see its effect. A grant that could not be written is not given.
// Since a log with a hole proves nothing, the first failed write also ends the log: every later one
// fails with the same error, so nothing is granted any more until the process is started anew. It is
// safe for concurrent use.
type EventLog struct {
	process string
	failed  func(error)

	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewEventLog writes to w. process names this lifetime of this process, and must differ from all
// others in the same log. failed, if not nil, is called once, with the error that ended the log, and
// must not call the budget.
func NewEventLog(w io.Writer, process string, failed func(error)) *EventLog {
	return &EventLog{w: w, process: process, failed: failed}
}

// Write adds e, under the log's process name.
func (l *EventLog) Write(e Event) error {
	e.Process = l.process
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if err == nil {
		_, err = l.w.Write(append(line, '\n'))
	}
	if err != nil {
		l.err = fmt.Errorf("budget event log: %w", err)
		if l.failed != nil {
			l.failed(l.err)
		}
	}
	return l.err
}

// Err is the error that ended the log, or nil.
func (l *EventLog) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
