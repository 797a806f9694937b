package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/verdictproxy/verdict/internal/ledger"
)

// A watched is what a watcher was told.
type watched struct {
	slow chan struct{} // if not nil, it takes nothing but what begin enters until this is closed

	mu      sync.Mutex
	told    []string
	missed  uint64
	started string
}

// begun is the case that begin enters.
const begun = "begun"

func (w *watched) each(c *ledger.Case, missed uint64) error {
	if c.GetCaseId() == begun {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.started = c.GetCause()
		return nil
	}
	if w.slow != nil {
		<-w.slow
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told, w.missed = append(w.told, c.GetCaseId()+" "+strings.TrimPrefix(c.GetState().String(), "CASE_STATE_")), missed
	return nil
}

func (w *watched) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

func (w *watched) wantMissed(t *testing.T, want uint64) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missed != want {
		t.Errorf("%d missed, want %d", w.missed, want)
	}
}

// begin watches until the end function is called. It returns when the watcher has taken all that begin
// has entered.
func (w *watched) begin(t *testing.T, l ledger.Ledger, f ledger.Filter) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Watch(ctx, f, w.each) }()
	seen := func(cause string) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.started != "" && (cause == "" || w.started == cause)
		}
	}
	n := 0
	Eventually(t, "the watcher is there", func() bool {
		n++
		l.Enter(ledger.Entry{CaseID: begun, Upstream: f.Upstream, Cause: fmt.Sprint(n)})
		return seen("")()
	})
	l.Enter(ledger.Entry{CaseID: begun, Upstream: f.Upstream, Cause: "the last"})
	Eventually(t, "the watcher has taken all", seen("the last"))
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("watching ends with %v", err)
		}
	})
}

func watch(t *testing.T, open Open) {
	l, _ := open(t, 1000, nil)
	var all, x watched
	endAll := all.begin(t, l, ledger.Filter{})
	endX := x.begin(t, l, ledger.Filter{Upstream: "x"})
	defer endAll()
	defer endX()
	l.Enter(ledger.Entry{CaseID: "a", Upstream: "x"})
	l.Enter(ledger.Entry{CaseID: "b", Upstream: "y"})
	Eventually(t, "b is watched", func() bool { return len(all.all()) == 2 })
	l.Enter(ledger.Entry{CaseID: "a", Cause: "reset"})
	Eventually(t, "a is told something new", func() bool { return len(all.all()) == 3 })
	resolve(t, l, "a", executed, "")
	want := []string{"a OPEN", "b OPEN", "a OPEN", "a EXECUTED"}
	Eventually(t, "a is resolved", func() bool { return len(all.all()) == len(want) })
	Eventually(t, "x is told", func() bool { return len(x.all()) == 3 })
	if got := all.all(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := x.all(), []string{"a OPEN", "a OPEN", "a EXECUTED"}; !slices.Equal(got, want) {
		t.Errorf("x: %q, want %q", got, want)
	}
	enough := errors.New("enough")
	done := make(chan error, 1)
	go func() {
		done <- l.Watch(t.Context(), ledger.Filter{}, func(*ledger.Case, uint64) error { return enough })
	}()
	n := 0
	Eventually(t, "a watcher that has enough", func() bool {
		n++
		l.Enter(ledger.Entry{CaseID: fmt.Sprint("more ", n)})
		select {
		case err := <-done:
			return err == enough
		default:
			return false
		}
	})
}

func slowWatcher(t *testing.T, open Open) {
	l, _ := open(t, 1000, nil)
	var fast watched
	slow := watched{slow: make(chan struct{})}
	defer fast.begin(t, l, ledger.Filter{})()
	defer slow.begin(t, l, ledger.Filter{Upstream: "x"})()
	const missed = 10
	const all = 1 + ledger.WatchBuffer + missed // one is in each's hands
	for i := range all {
		l.Enter(ledger.Entry{CaseID: fmt.Sprint(i), Upstream: "x"})
		if i%100 == 0 { // so that the fast one is not too slow
			Eventually(t, "the fast one is told", func() bool { return len(fast.all()) == i+1 })
		}
	}
	Eventually(t, "the fast one is told of all", func() bool { return len(fast.all()) == all })
	close(slow.slow)
	Eventually(t, "the slow one has caught up", func() bool { return len(slow.all()) == 1+ledger.WatchBuffer })
	resolve(t, l, "0", executed, "")
	Eventually(t, "the slow one is told", func() bool { return len(slow.all()) == 2+ledger.WatchBuffer })
	slow.wantMissed(t, missed)
	fast.wantMissed(t, 0)
}
