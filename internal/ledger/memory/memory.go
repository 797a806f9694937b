// Package memory is a ledger that one process keeps for as long as it lives.
package memory

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
)

// Ledger is a ledger.Ledger. No call holds its lock for longer than it takes to copy a pointer per case,
// so that entering one delays no answer. None returns ledger.ErrUnavailable.
type Ledger struct {
	size     int
	now      func() time.Time
	watchers ledger.Watchers

	mu       sync.Mutex
	last     uint64
	lost     uint64
	cases    map[string]*list.Element // of *kept
	open     list.List                // in the order of entering
	resolved list.List                // in the order of resolving
}

var _ ledger.Ledger = (*Ledger)(nil)

type kept struct {
	*ledger.Case
	number uint64 // in the order of entering, from 1
}

// New makes an empty one for size cases, ledger.DefaultSize where size <= 0. now is time.Now where it
// is nil.
func New(size int, now func() time.Time) *Ledger {
	if size <= 0 {
		size = ledger.DefaultSize
	}
	if now == nil {
		now = time.Now
	}
	return &Ledger{size: size, now: now, cases: map[string]*list.Element{}}
}

// Enter is documented at ledger.Ledger, as are the others.
func (l *Ledger) Enter(e ledger.Entry) {
	c := e.Case(l.now())
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, ok := l.cases[c.GetCaseId()]; ok {
		old := element.Value.(*kept)
		if c = ledger.Merge(old.Case, c); !proto.Equal(c, old.Case) {
			element.Value = &kept{c, old.number}
			l.watchers.Tell(c)
		}
		return
	}
	if len(l.cases) >= l.size {
		l.makeRoom()
	}
	l.last++
	l.cases[c.GetCaseId()] = l.open.PushBack(&kept{c, l.last})
	l.watchers.Tell(c)
}

func (l *Ledger) makeRoom() {
	from := &l.resolved
	if from.Len() == 0 {
		from = &l.open
		l.lost++
	}
	oldest := from.Remove(from.Front()).(*kept)
	delete(l.cases, oldest.GetCaseId())
}

func (l *Ledger) Get(_ context.Context, caseID string) (*ledger.Case, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, ok := l.cases[caseID]; ok {
		return element.Value.(*kept).Case, nil
	}
	return nil, ledger.ErrNotFound
}

func (l *Ledger) Resolve(_ context.Context, caseID string, state retryv1.CaseState, note string) (*ledger.Case, error) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	element, ok := l.cases[caseID]
	if !ok {
		return nil, ledger.ErrNotFound
	}
	old := element.Value.(*kept)
	if old.GetState() == retryv1.CaseState_CASE_STATE_OPEN {
		l.open.Remove(element)
	} else {
		l.resolved.Remove(element)
	}
	c := ledger.Resolved(old.Case, state, note, now)
	l.cases[caseID] = l.resolved.PushBack(&kept{c, old.number})
	l.watchers.Tell(c)
	return c, nil
}

func (l *Ledger) List(_ context.Context, f ledger.Filter, before uint64, limit int) (ledger.Page, error) {
	all, lost := l.snapshot()
	page := ledger.Page{Lost: lost}
	slices.SortFunc(all, func(a, b *kept) int { return cmp.Compare(b.number, a.number) })
	last := uint64(0)
	for _, c := range all {
		if before != 0 && c.number >= before || !f.Match(c.Case) {
			continue
		}
		if len(page.Cases) == limit {
			page.Next = last
			break
		}
		page.Cases = append(page.Cases, c.Case)
		last = c.number
	}
	return page, nil
}

func (l *Ledger) snapshot() (all []*kept, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all = make([]*kept, 0, len(l.cases))
	for _, element := range l.cases {
		all = append(all, element.Value.(*kept))
	}
	return all, l.lost
}

func (l *Ledger) Watch(ctx context.Context, f ledger.Filter, each func(c *ledger.Case, missed uint64) error) error {
	return l.watchers.Watch(ctx, f, each)
}

func (l *Ledger) Count() (open int, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open.Len(), l.lost
}

// Close does nothing: the cases end with the process.
func (l *Ledger) Close() error { return nil }
