// Package ledger keeps the uncertain outcomes: requests that ended in a failure and may or may not have
// been executed, each a case for somebody to reconcile.
package ledger

import (
	"cmp"
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// DefaultSize is how many cases are kept; one takes about 1.5 KiB.
const DefaultSize = 10_000

// maxPath bounds the path of a case in bytes.
const maxPath = 1024

// ErrNotFound: there is no such case, or no longer.
var ErrNotFound = errors.New("no such case")

// Entry is an uncertain outcome, with what reconciliation needs.
type Entry struct {
	CaseID    string // not empty
	RequestID string // a client may have chosen it
	Upstream  string
	Operation string // the declared operation, or empty
	Method    string
	Path      string
	Key       string // the one valid idempotency key, or empty
	Attempts  int    // 0 is not known
	Cause     string // what was seen to happen, for people
	Decision  decision.Decision
	Facts     decision.Facts         // what the rules were given, as far as it was known
	Rules     []decision.RuleOutcome // what they made of it, without those that were not asked
}

// State says what is known of a case.
type State uint8

const (
	StateUnknown State = iota // of no case; in a Filter any
	Open                      // nobody has reconciled it
	Executed
	NotExecuted
	GivenUp // it could not be found out
)

// Case is an entry and what became of it. It does not change: a newer one takes its place.
type Case struct {
	Entry
	Number   uint64 // in the order of entering, from 1
	Time     time.Time
	State    State
	Resolved time.Time // of the last Resolve, or zero
	Note     string
}

// Ledger is bounded: when it is full, the case that was resolved first makes room, and where none is
// resolved, the oldest. It is safe for concurrent use. No call holds its lock for longer than it takes to
// copy a pointer per case, so that entering one delays no answer.
type Ledger struct {
	size int
	now  func() time.Time

	mu       sync.Mutex
	last     uint64
	lost     uint64
	cases    map[string]*list.Element // of *Case
	open     list.List                // in the order of entering
	resolved list.List                // in the order of resolving
	watchers map[*watcher]struct{}
}

// New makes an empty one for size cases, DefaultSize where size <= 0. now is time.Now where it is nil.
func New(size int, now func() time.Time) *Ledger {
	if size <= 0 {
		size = DefaultSize
	}
	if now == nil {
		now = time.Now
	}
	return &Ledger{size: size, now: now, cases: map[string]*list.Element{}, watchers: map[*watcher]struct{}{}}
}

// Enter adds a case. One that is there already is told what is new, and keeps its time and state.
func (l *Ledger) Enter(e Entry) {
	e.Path = e.Path[:min(len(e.Path), maxPath)]
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, ok := l.cases[e.CaseID]; ok {
		again := *element.Value.(*Case)
		again.Entry = merged(again.Entry, e)
		element.Value = &again
		l.tell(&again)
		return
	}
	if len(l.cases) >= l.size {
		l.makeRoom()
	}
	l.last++
	c := &Case{Entry: e, Number: l.last, Time: now, State: Open}
	l.cases[e.CaseID] = l.open.PushBack(c)
	l.tell(c)
}

// merged is what two entries say of one case, the newer one first.
func merged(old, e Entry) Entry {
	e.RequestID = cmp.Or(e.RequestID, old.RequestID)
	e.Upstream = cmp.Or(e.Upstream, old.Upstream)
	e.Operation = cmp.Or(e.Operation, old.Operation)
	e.Method = cmp.Or(e.Method, old.Method)
	e.Path = cmp.Or(e.Path, old.Path)
	e.Key = cmp.Or(e.Key, old.Key)
	e.Attempts = max(e.Attempts, old.Attempts)
	e.Cause = cmp.Or(e.Cause, old.Cause)
	return e
}

func (l *Ledger) makeRoom() {
	from := &l.resolved
	if from.Len() == 0 {
		from = &l.open
		l.lost++
	}
	oldest := from.Remove(from.Front()).(*Case)
	delete(l.cases, oldest.CaseID)
}

// Get returns a case, or ErrNotFound.
func (l *Ledger) Get(caseID string) (*Case, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, ok := l.cases[caseID]; ok {
		return element.Value.(*Case), nil
	}
	return nil, ErrNotFound
}

// Resolve writes down what reconciliation found; the last word counts. state is Executed, NotExecuted or
// GivenUp. An error is ErrNotFound.
func (l *Ledger) Resolve(caseID string, state State, note string) (*Case, error) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	element, ok := l.cases[caseID]
	if !ok {
		return nil, ErrNotFound
	}
	c := *element.Value.(*Case)
	if c.State == Open {
		l.open.Remove(element)
	} else {
		l.resolved.Remove(element)
	}
	c.State, c.Note, c.Resolved = state, note, now
	l.cases[caseID] = l.resolved.PushBack(&c)
	l.tell(&c)
	return &c, nil
}

// Filter selects cases; its zero value selects all.
type Filter struct {
	Upstream, Operation string    // exactly, or empty
	Since, Until        time.Time // entered in [Since, Until), or zero
	State               State
}

// Match reports whether the filter selects a case.
func (f Filter) Match(c *Case) bool {
	return (f.Upstream == "" || f.Upstream == c.Upstream) &&
		(f.Operation == "" || f.Operation == c.Operation) &&
		(f.Since.IsZero() || !c.Time.Before(f.Since)) &&
		(f.Until.IsZero() || c.Time.Before(f.Until)) &&
		(f.State == StateUnknown || f.State == c.State)
}

// List returns at most limit cases that match, the newest first, of those with a Number below before;
// 0 is no bound. more says that there are others behind them.
func (l *Ledger) List(f Filter, before uint64, limit int) (cases []*Case, more bool) {
	all := l.snapshot()
	slices.SortFunc(all, func(a, b *Case) int { return cmp.Compare(b.Number, a.Number) })
	for _, c := range all {
		if before != 0 && c.Number >= before || !f.Match(c) {
			continue
		}
		if len(cases) == limit {
			return cases, true
		}
		cases = append(cases, c)
	}
	return cases, false
}

func (l *Ledger) snapshot() []*Case {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*Case, 0, len(l.cases))
	for _, element := range l.cases {
		all = append(all, element.Value.(*Case))
	}
	return all
}

// Count returns how many cases are open, and how many were lost unresolved.
func (l *Ledger) Count() (open int, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open.Len(), l.lost
}
