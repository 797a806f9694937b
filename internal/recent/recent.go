// Package recent remembers the latest decisions, so that somebody can ask why a request was not sent
// again.
package recent

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/verdictproxy/verdict/internal/ledger"
)

// Size is how many decisions are remembered; one takes about 1 KiB.
const Size = 10_000

// Decision is one decision, what it was about, and when it was made.
type Decision struct {
	Number uint64 // in the order of deciding, from 1
	Time   time.Time
	ledger.Entry
}

// Decisions is a ring. It is ready to use as it is, safe for concurrent use, and nobody waits for anybody.
type Decisions struct {
	last atomic.Uint64
	ring [Size]atomic.Pointer[Decision]
}

// Add remembers a decision, dated now, in the place of the oldest. CaseID may be empty.
func (d *Decisions) Add(e ledger.Entry) {
	n := d.last.Add(1)
	d.ring[n%Size].Store(&Decision{Number: n, Time: time.Now(), Entry: e})
}

// Find returns the remembered decisions on a request, the oldest first, by its request id or its case's.
// A client may have chosen a request id, so that they may be on several requests.
func (d *Decisions) Find(id string) []*Decision {
	if id == "" {
		return nil
	}
	var found []*Decision
	for i := range d.ring {
		if r := d.ring[i].Load(); r != nil && (r.RequestID == id || r.CaseID == id) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *Decision) int { return cmp.Compare(a.Number, b.Number) })
	return found
}
