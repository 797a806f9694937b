// Package accounts is what the backends of the budget have in common: a bounded number of accounts, and one
// that newcomers share while none is free.
package accounts

import (
	"context"
	"math"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// DefaultMax is how many accounts there are beside the shared one where nobody says otherwise.
const DefaultMax = 1024

// A Door is the lock of an account that may be evicted.
type Door struct {
	mu   sync.Mutex
	Gone bool // evicted, or the budget is closed; under the lock
}

// Enter locks the account, unless it no longer stands for its upstream.
//
// Callers read the clock with the lock held: a call that had to wait must not act by an older time.
func (d *Door) Enter() bool {
	d.mu.Lock()
	if d.Gone {
		d.mu.Unlock()
		return false
	}
	return true
}

// Hold locks the account, gone or not.
func (d *Door) Hold() { d.mu.Lock() }

// Leave unlocks.
func (d *Door) Leave() { d.mu.Unlock() }

// Retire makes handles look elsewhere from now on.
func (d *Door) Retire() {
	d.mu.Lock()
	d.Gone = true
	d.mu.Unlock()
}

// Account is what a Set holds. The methods of the second group are called between Enter and Leave.
type Account interface {
	comparable
	Enter() bool
	Leave()
	Retire()
	// RetireIdle retires an account that is idle; else it says when it will be, left alone.
	RetireIdle(now int64) (retired bool, idleAt int64)
	Name() string // the upstream, "" for the shared one
	Change(budget.Settings)
	Return(budget.Grant)
	Look() (s budget.State, ok bool) // false when it no longer stands for its upstream

	// Pay deposits by the account's own ratio, PayAs by the one of an upstream that shares it.
	Pay(n int)
	PayAs(n int, s budget.Settings)
	Take(ctx context.Context) (budget.Grant, bool)
	IsEmpty() bool
}

// Set is a bounded set of accounts. It is safe for concurrent use.
//
// When there are as many as there may be and another upstream comes, the least recently resolved of the
// idle ones is evicted. When none is idle, newcomers share one account, named "".
type Set[A Account] struct {
	settings func(string) budget.Settings
	clock    func() int64
	max      int
	open     func(upstream string, s budget.Settings, serial int, now int64) A
	shared   A

	mu       sync.Mutex // taken before an account's
	accounts *simplelru.LRU[string, A]
	serial   int   // of the account opened last
	now      int64 // the latest instant at which an account was opened or evicted
	idleAt   int64 // no account is idle before this instant
	closed   bool
}

// Init makes an empty one, with the shared account, which has no reserve; DefaultMax holds where most <= 0.
// settings is as of memory.New, nil among it. open makes an account that begins now; serial tells those of
// one upstream apart.
func (s *Set[A]) Init(settings func(string) budget.Settings, clock func() int64, most int, open func(upstream string, s budget.Settings, serial int, now int64) A) {
	if settings == nil {
		settings = func(string) budget.Settings { return budget.DefaultSettings() }
	}
	if most <= 0 {
		most = DefaultMax
	}
	s.settings, s.clock, s.max, s.open = settings, clock, most, open
	s.accounts, _ = simplelru.NewLRU[string, A](most, nil) // fails for a size <= 0 only
	sharing := budget.DefaultSettings()
	sharing.Reserve = 0
	s.now, s.idleAt, s.serial = clock(), math.MinInt64, 1
	s.shared = open("", sharing, s.serial, s.now)
}

// Shared is the account that newcomers share.
func (s *Set[A]) Shared() A { return s.shared }

// Resolve finds the account that stands for an upstream at this moment; false when closed. It may be
// evicted before the caller has entered it.
func (s *Set[A]) Resolve(upstream string) (a A, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return a, false
	}
	if upstream == "" {
		return s.shared, true
	}
	if a, ok := s.accounts.Get(upstream); ok {
		return a, true
	}
	// Never back: an account must not begin before the one evicted under its name ended.
	s.now = max(s.now, s.clock())
	if s.accounts.Len() >= s.max && !s.evict(s.now) {
		return s.shared, true
	}
	upstream = strings.Clone(upstream)
	s.serial++
	a = s.open(upstream, s.settings(upstream), s.serial, s.now)
	s.accounts.Add(upstream, a)
	return a, true
}

// evict removes one idle account, if there is any.
func (s *Set[A]) evict(now int64) bool {
	if now < s.idleAt {
		return false
	}
	idleAt := int64(math.MaxInt64)
	for _, a := range s.accounts.Values() { // least recently resolved first
		retired, at := a.RetireIdle(now)
		if retired {
			s.accounts.Remove(a.Name())
			return true
		}
		idleAt = min(idleAt, at)
	}
	s.idleAt = idleAt // use only moves it later, so no scan is needed before
	return false
}

// Handle is what budget.Budget's Account returns: own makes one of an account that is an upstream's own.
func (s *Set[A]) Handle(upstream string, own func(A) budget.Account) budget.Account {
	if a, ok := s.Resolve(upstream); ok && a != s.shared {
		return own(a)
	}
	return Newcomer[A]{s, strings.Clone(upstream)}
}

// All is every account, the shared one last.
func (s *Set[A]) All() []A {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(s.accounts.Values(), s.shared)
}

// Reload puts in force what settings says now, for all accounts but the shared one.
func (s *Set[A]) Reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idleAt = math.MinInt64 // an interval may have become shorter
	for _, a := range s.accounts.Values() {
		a.Change(s.settings(a.Name()))
	}
}

// Close lets nobody resolve an account any more, and returns those there were, the shared one last; false
// when that was done before. They are to be retired.
func (s *Set[A]) Close() (all []A, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.closed = true
	all = append(s.accounts.Values(), s.shared)
	s.accounts.Purge()
	return all, true
}
