package redis

import (
	"container/list"
	"sync"

	"github.com/verdictproxy/verdict/internal/ledger"
)

// A queue is the cases that are entered and not yet known to be on the server, the oldest first. It is
// bounded: when it is full, the oldest that is not under way is lost. size is more than may be under way.
type queue struct {
	size  int
	ready chan struct{} // there is something to do

	mu      sync.Mutex
	waiting list.List                // of *waiting
	byID    map[string]*list.Element // of waiting
	dropped uint64                   // in all
	untold  uint64                   // of these, how many the server was not told of
}

type waiting struct {
	c        *ledger.Case
	underWay bool
}

func newQueue(size int) *queue {
	return &queue{size: size, ready: make(chan struct{}, 1), byID: map[string]*list.Element{}}
}

// add adds a case, or what is new of one. It says whether another was lost by that.
func (q *queue) add(c *ledger.Case) (lost bool) {
	q.mu.Lock()
	if element, ok := q.byID[c.GetCaseId()]; ok {
		w := element.Value.(*waiting)
		w.c = ledger.Merge(w.c, c)
	} else {
		if q.waiting.Len() >= q.size {
			lost = q.drop()
		}
		q.byID[c.GetCaseId()] = q.waiting.PushBack(&waiting{c: c})
	}
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return lost
}

func (q *queue) drop() bool {
	for element := q.waiting.Front(); element != nil; element = element.Next() {
		if w := element.Value.(*waiting); !w.underWay {
			q.remove(element)
			q.dropped++
			q.untold++
			return true
		}
	}
	return false
}

func (q *queue) remove(element *list.Element) {
	q.waiting.Remove(element)
	delete(q.byID, element.Value.(*waiting).c.GetCaseId())
}

// take returns at most n cases, which are under way until done is called for them, or failed, and how many
// losses are to be told.
func (q *queue) take(n int) (cases []*ledger.Case, untold uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for element := q.waiting.Front(); element != nil && len(cases) < n; element = element.Next() {
		w := element.Value.(*waiting)
		w.underWay = true
		cases = append(cases, w.c)
	}
	return cases, q.untold
}

// done removes a case that is on the server, unless something new was said of it meanwhile.
func (q *queue) done(c *ledger.Case) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if element, ok := q.byID[c.GetCaseId()]; ok {
		w := element.Value.(*waiting)
		if w.underWay = false; w.c == c {
			q.remove(element)
		}
	}
}

// failed lets cases wait again.
func (q *queue) failed(cases []*ledger.Case) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range cases {
		if element, ok := q.byID[c.GetCaseId()]; ok {
			element.Value.(*waiting).underWay = false
		}
	}
}

// told takes off losses that the server knows now.
func (q *queue) told(n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.untold -= n
}

// get returns a case that is not yet known to be on the server, or nil.
func (q *queue) get(id string) *ledger.Case {
	q.mu.Lock()
	defer q.mu.Unlock()
	if element, ok := q.byID[id]; ok {
		return element.Value.(*waiting).c
	}
	return nil
}

// count is how many wait, how many were dropped in all, and how many of these the server was not told of.
func (q *queue) count() (waiting int, dropped, untold uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len(), q.dropped, q.untold
}
