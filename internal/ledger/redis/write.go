package redis

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/verdictproxy/verdict/internal/ledger"
)

const (
	// batch is how many cases are brought at once.
	batch = 128
	// pause is how long nothing is tried after a failure.
	pause = 250 * time.Millisecond
	// idle is how often the server is asked for its counts when nothing is to be brought.
	idle = time.Second
	// closeWithin is how long Close tries to bring what waits.
	closeWithin = 2 * time.Second
)

// write brings what waits to the server, until the end.
func (l *Ledger) write() {
	defer l.finish()
	ticker := time.NewTicker(idle)
	defer ticker.Stop()
	for {
		var wait <-chan struct{}
		again := ticker.C
		if l.bring(l.closing) == nil {
			wait = l.queue.ready
		} else {
			again = time.After(pause)
		}
		select {
		case <-l.closing.Done():
			return
		case <-wait:
		case <-again:
		}
	}
}

// finish brings what is left.
func (l *Ledger) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	for {
		waiting, _, untold := l.queue.count()
		if waiting == 0 && untold == 0 {
			return
		}
		if l.bring(ctx) == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// bring brings all that waits, and asks for the counts where nothing does.
func (l *Ledger) bring(ctx context.Context) error {
	for {
		cases, untold := l.queue.take(batch)
		changes := make([]change, len(cases))
		for i, c := range cases {
			changes[i] = change{id: c.GetCaseId(), to: c}
		}
		err := l.bringThese(ctx, cases, changes, untold)
		l.answered(err)
		if err != nil {
			l.queue.failed(cases)
			return err
		}
		if len(cases) < batch {
			return nil
		}
	}
}

// bringThese is one batch. A case that is there already is merged with what is there, as often as it takes.
func (l *Ledger) bringThese(ctx context.Context, cases []*ledger.Case, changes []change, untold uint64) error {
	for {
		outcomes, open, lost, err := l.store.put(ctx, untold, changes...)
		if err != nil {
			return err
		}
		// A loss whose telling got no reply is told again: better counted twice than not.
		l.queue.told(untold)
		untold = 0
		l.open.Store(uint64(open))
		l.lost.Store(lost)
		var restCases []*ledger.Case
		var rest []change
		for i, o := range outcomes {
			again, more := next(cases[i], o)
			if !more {
				l.queue.done(cases[i])
				continue
			}
			restCases, rest = append(restCases, cases[i]), append(rest, again)
		}
		if len(rest) == 0 {
			return nil
		}
		cases, changes = restCases, rest
	}
}

// next is what is to be tried after an outcome, if anything. What is there and cannot be read gives way.
func next(c *ledger.Case, o outcome) (again change, more bool) {
	if o.done {
		return change{}, false
	}
	again = change{id: c.GetCaseId(), seen: o.there, to: c}
	if o.there == "" {
		return again, true
	}
	if old, err := decode(c.GetCaseId(), o.there); err == nil {
		if again.to = ledger.Merge(old, c); proto.Equal(again.to, old) {
			return change{}, false
		}
	}
	return again, true
}

// answered says what has changed, when a call has ended. One that Close has cut short says nothing.
func (l *Ledger) answered(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if err == nil {
		l.losing.Store(false)
	}
	if !l.down.CompareAndSwap(err == nil, err != nil) {
		return
	}
	waiting, _, _ := l.queue.count()
	if err != nil {
		l.log.Warn("the ledger's Redis does not answer: uncertain outcomes wait here", "error", err)
	} else {
		l.log.Info("the ledger's Redis answers again", "waited", waiting)
	}
}
