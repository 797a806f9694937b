package app

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// openEventLog opens the file that every event of the budget is appended to; "" is none. The returned
// function closes it.
func openEventLog(path string, log *slog.Logger) (*budget.EventLog, func() error, error) {
	if path == "" {
		return nil, func() error { return nil }, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("--event-log: %w", err)
	}
	process := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	return budget.NewEventLog(f, process, func(err error) {
		log.Error("the budget's event log cannot be written: no retry is granted until a restart", "file", path, "error", err)
	}), f.Close, nil
}
