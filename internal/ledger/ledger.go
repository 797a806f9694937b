// Package ledger keeps the uncertain outcomes: requests that ended in a failure and may or may not have
// been executed, each a case for somebody to reconcile. It is the contract; packages memory and redis
// keep it.
package ledger

import (
	"context"
	"errors"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// DefaultSize is how many cases are kept; one takes about 1.5 KiB.
const DefaultSize = 10_000

// Errors of a Ledger, to be found by errors.Is.
var (
	// ErrNotFound: there is no such case, or no longer.
	ErrNotFound = errors.New("no such case")
	// ErrUnavailable: whoever keeps the cases cannot be asked now. The case may be there.
	ErrUnavailable = errors.New("the ledger cannot be reached")
	// ErrDamaged: the case is there, and what is kept of it cannot be read.
	ErrDamaged = errors.New("what the ledger keeps of this case cannot be read")
)

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

// Case is an entry and what became of it. Nobody changes one that a Ledger has given out.
type Case = retryv1.Case

// Ledger is bounded: when it is full, the case that was resolved first makes room, and where none is
// resolved, the oldest, which is a loss. It is safe for concurrent use.
type Ledger interface {
	// Enter adds a case, which is open. One that is there already is told what is new (see Merge), and
	// keeps its time and state. It returns at once, whatever the ledger is kept by.
	Enter(Entry)
	// Get returns a case. An error is ErrNotFound, ErrUnavailable or ErrDamaged.
	Get(ctx context.Context, caseID string) (*Case, error)
	// Resolve writes down what reconciliation found, and returns the case as it is then; the last word
	// counts. state is executed, not executed or given up. An error is as of Get.
	Resolve(ctx context.Context, caseID string, state retryv1.CaseState, note string) (*Case, error)
	// List returns at most limit cases that match, the last entered first. before is Page.Next of the page
	// before, or 0. A case that cannot be read is left out. An error is ErrUnavailable.
	List(ctx context.Context, f Filter, before uint64, limit int) (Page, error)
	// Watch calls each for every case that matches when it is entered, told something new or resolved, from
	// now on, with the number of those that were missed until then because each was too slow. It returns
	// each's error, ctx's when that ends, or ErrUnavailable at its beginning.
	Watch(ctx context.Context, f Filter, each func(c *Case, missed uint64) error) error
	// Count returns how many cases are open, and how many were lost unresolved, as far as is known without
	// asking anybody.
	Count() (open int, lost uint64)
	// Close brings what was entered to where it is kept, for a bounded time.
	Close() error
}

// Page is a part of a list.
type Page struct {
	Cases []*Case
	Next  uint64 // where the next page begins, or 0 on the last
	Lost  uint64 // cases lost unresolved
}

// Filter selects cases; its zero value selects all.
type Filter struct {
	Upstream, Operation string    // exactly, or empty
	Since, Until        time.Time // entered in [Since, Until), or zero
	State               retryv1.CaseState
}

// Match reports whether the filter selects a case.
func (f Filter) Match(c *Case) bool {
	return (f.Upstream == "" || f.Upstream == c.GetUpstream()) &&
		(f.Operation == "" || f.Operation == c.GetOperation()) &&
		(f.State == retryv1.CaseState_CASE_STATE_UNSPECIFIED || f.State == c.GetState()) &&
		(f.Since.IsZero() && f.Until.IsZero() || f.entered(c.GetTime().AsTime()))
}

func (f Filter) entered(at time.Time) bool {
	return (f.Since.IsZero() || !at.Before(f.Since)) && (f.Until.IsZero() || at.Before(f.Until))
}
