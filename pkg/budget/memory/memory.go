// Package memory is the budget of one process: the payment law holds per process and lifetime.
package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/internal/accounts"
)

// DefaultMaxUpstreams is Options.MaxUpstreams where it is not positive. An account takes about 2 KiB.
const DefaultMaxUpstreams = accounts.DefaultMax

// Options of New; the zero value is ready to use.
type Options struct {
	// MaxUpstreams is how many accounts there are beside the shared one; DefaultMaxUpstreams if <= 0.
	MaxUpstreams int
	// Clock is monotonic nanoseconds; nil is the process's monotonic clock. One that steps back makes
	// an account stand still until it has caught up: nothing expires, no reserve comes back.
	Clock func() int64
	// Log, if not nil, gets every event before its effect can be seen. A grant that cannot be written is
	// not given, and after a failed write nothing is granted any more: see budget.EventLog.
	Log *budget.EventLog
}

// Budget is a budget.Budget whose upstreams are bounded.
//
// When there are MaxUpstreams accounts and another upstream comes, the least recently resolved of the
// idle ones is evicted; idle is an account with no deposit, withdrawal or return for an interval and
// 1/50 (the default interval for Never and Unlimited). An evicted upstream that comes back gets a new
// account: nothing earned and the full reserve, which is exactly what it would have had by then if it
// had been left in place; a grant from before cannot be returned, for it has expired. Handles resolved
// before the eviction find the new account.
//
// When none is idle, newcomers share one account, named "", which earns by each upstream's own ratio,
// keeps deposits for the default interval, and has no reserve. A newcomer leaves it as soon as an
// account becomes idle. While it shares, Unlimited counts as Never.
type Budget struct {
	clock    func() int64
	log      *budget.EventLog
	accounts accounts.Set[*account]
}

var _ budget.Budget = (*Budget)(nil)

// New makes a budget. settings tells those of an upstream: it is asked when an account is created, at
// Reload, and by the calls of an upstream that shares; nil is budget.DefaultSettings for all. It must
// be safe for concurrent use and, since a lock may be held, must not call the budget.
func New(settings func(upstream string) budget.Settings, o Options) *Budget {
	if o.Clock == nil {
		o.Clock = monotonic
	}
	b := &Budget{clock: o.Clock, log: o.Log}
	b.accounts.Init(settings, o.Clock, o.MaxUpstreams, b.open)
	return b
}

var base = time.Now()

// monotonic reads only the monotonic half of the clock, at about half the price of time.Now.
func monotonic() int64 { return int64(time.Since(base)) }

func (b *Budget) open(upstream string, s budget.Settings, serial int, now int64) *account {
	a := &account{budget: b, clock: b.clock, log: b.log, upstream: upstream, serial: serial}
	a.ledger.Init(s, now)
	return a
}

// Account is documented at budget.Budget.
func (b *Budget) Account(upstream string) budget.Account {
	return b.accounts.Handle(upstream, func(a *account) budget.Account { return a })
}

// Reload puts in force what settings says now, for all accounts, and refills none of them: see
// budget.Ledger's Change.
func (b *Budget) Reload() { b.accounts.Reload() }

// List is documented at budget.Budget.
func (b *Budget) List() []budget.State {
	var list []budget.State
	for _, a := range b.accounts.All() {
		s, ok := a.Look()
		if ok && (a != b.accounts.Shared() || s.Firsts+s.Retries+s.Refused > 0) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(x, y budget.State) int { return cmp.Compare(x.Upstream, y.Upstream) })
	return list
}

// Close is documented at budget.Budget. It returns nil, and leaves the event log's writer open.
func (b *Budget) Close() error {
	all, _ := b.accounts.Close()
	for _, a := range all {
		a.Retire()
	}
	return nil
}
