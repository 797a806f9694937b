// Package memory is the budget of one process: the payment law holds per process and lifetime.
package memory

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// DefaultMaxUpstreams is Options.MaxUpstreams where it is not positive. An account takes about 2 KiB.
const DefaultMaxUpstreams = 1024

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
	settings func(string) budget.Settings
	clock    func() int64
	log      *budget.EventLog
	max      int
	shared   *account

	mu       sync.Mutex // taken before an account's
	accounts *simplelru.LRU[string, *account]
	serial   int   // of the account created last
	now      int64 // the latest instant at which an account was opened or evicted
	idleAt   int64 // no account is idle before this instant
	closed   bool
}

var _ budget.Budget = (*Budget)(nil)

// New makes a budget. settings tells those of an upstream: it is asked when an account is created, at
// Reload, and by the calls of an upstream that shares; nil is budget.DefaultSettings for all. It must
// be safe for concurrent use and, since a lock may be held, must not call the budget.
func New(settings func(upstream string) budget.Settings, o Options) *Budget {
	if settings == nil {
		settings = func(string) budget.Settings { return budget.DefaultSettings() }
	}
	if o.MaxUpstreams <= 0 {
		o.MaxUpstreams = DefaultMaxUpstreams
	}
	if o.Clock == nil {
		o.Clock = monotonic
	}
	b := &Budget{settings: settings, clock: o.Clock, log: o.Log, max: o.MaxUpstreams}
	b.accounts, _ = simplelru.NewLRU[string, *account](o.MaxUpstreams, nil) // fails for a size <= 0 only
	sharing := budget.DefaultSettings()
	sharing.Reserve = 0
	b.now, b.idleAt = b.clock(), math.MinInt64
	b.shared = b.open("", sharing, b.now)
	return b
}

var base = time.Now()

// monotonic reads only the monotonic half of the clock, at about half the price of time.Now.
func monotonic() int64 { return int64(time.Since(base)) }

// open makes an account; b.mu is held, or b is not yet known to anybody.
func (b *Budget) open(upstream string, s budget.Settings, now int64) *account {
	b.serial++
	a := &account{budget: b, clock: b.clock, log: b.log, upstream: upstream, serial: b.serial}
	a.ledger.Init(s, now)
	return a
}

// Account is documented at budget.Budget.
func (b *Budget) Account(upstream string) budget.Account {
	if a := b.resolve(upstream); a != nil && a != b.shared {
		return a
	}
	return newcomer{b, strings.Clone(upstream)}
}

// resolve finds the account that stands for an upstream at this moment; nil when closed. It may be
// evicted before the caller has locked it.
func (b *Budget) resolve(upstream string) *account {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	if upstream == "" {
		return b.shared
	}
	if a, ok := b.accounts.Get(upstream); ok {
		return a
	}
	// Never back: an account must not begin before the one evicted under its name ended.
	b.now = max(b.now, b.clock())
	if b.accounts.Len() >= b.max && !b.evict(b.now) {
		return b.shared
	}
	upstream = strings.Clone(upstream)
	a := b.open(upstream, b.settings(upstream), b.now)
	b.accounts.Add(upstream, a)
	return a
}

// evict removes one idle account, if there is any.
func (b *Budget) evict(now int64) bool {
	if now < b.idleAt {
		return false
	}
	idleAt := int64(math.MaxInt64)
	for _, a := range b.accounts.Values() { // least recently resolved first
		retired, at := a.retireIdle(now)
		if retired {
			b.accounts.Remove(a.upstream)
			return true
		}
		idleAt = min(idleAt, at)
	}
	b.idleAt = idleAt // use only moves it later, so no scan is needed before
	return false
}

// Reload puts in force what settings says now, for all accounts, and refills none of them: see
// budget.Ledger's Change.
func (b *Budget) Reload() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idleAt = math.MinInt64 // an interval may have become shorter
	for _, a := range b.accounts.Values() {
		a.change(b.settings(a.upstream))
	}
}

// List is documented at budget.Budget.
func (b *Budget) List() []budget.State {
	b.mu.Lock()
	accounts := b.accounts.Values()
	b.mu.Unlock()
	var list []budget.State
	if s, ok := b.shared.look(); ok && s.Firsts+s.Retries+s.Refused > 0 {
		list = append(list, s)
	}
	for _, a := range accounts {
		if s, ok := a.look(); ok {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(x, y budget.State) int { return cmp.Compare(x.Upstream, y.Upstream) })
	return list
}

// Close is documented at budget.Budget. It returns nil, and leaves the event log's writer open.
func (b *Budget) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, a := range append(b.accounts.Values(), b.shared) {
		a.retire()
	}
	b.accounts.Purge()
	return nil
}
