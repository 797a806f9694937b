package accounts

import (
	"context"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// Newcomer is a handle that looks its account up anew at every call: for upstreams that share, and for
// calls on an account that was evicted.
type Newcomer[A Account] struct {
	set      *Set[A]
	upstream string
}

// Newcomer is the handle of an upstream whose account was evicted.
func (s *Set[A]) Newcomer(upstream string) Newcomer[A] { return Newcomer[A]{s, upstream} }

// enter returns the account that stands for the upstream, entered; false when the budget is closed.
func (n Newcomer[A]) enter() (a A, ok bool) {
	for {
		a, ok := n.set.Resolve(n.upstream)
		if !ok || a.Enter() {
			return a, ok
		}
	}
}

// Deposit is documented at budget.Account, as are the others.
func (n Newcomer[A]) Deposit(k int) {
	if k <= 0 {
		return
	}
	s := n.set.settings(n.upstream)
	a, ok := n.enter()
	if !ok {
		return
	}
	defer a.Leave()
	if a == n.set.shared {
		a.PayAs(k, s)
	} else {
		a.Pay(k)
	}
}

func (n Newcomer[A]) TryWithdraw(ctx context.Context) (budget.Grant, bool) {
	s := n.set.settings(n.upstream)
	a, ok := n.enter()
	if !ok {
		return budget.Grant{}, false
	}
	defer a.Leave()
	if n.barred(a, s) {
		return budget.Grant{}, false
	}
	return a.Take(ctx)
}

// barred: what lies in the shared account was earned by others.
func (n Newcomer[A]) barred(a A, s budget.Settings) bool {
	return a == n.set.shared && (s.IsNever() || s.IsUnlimited())
}

func (n Newcomer[A]) Return(g budget.Grant) {
	if a, ok := n.set.Resolve(n.upstream); ok {
		a.Return(g)
	}
}

func (n Newcomer[A]) Empty() bool {
	s := n.set.settings(n.upstream)
	a, ok := n.enter()
	if !ok {
		return true
	}
	defer a.Leave()
	return n.barred(a, s) || a.IsEmpty()
}

func (n Newcomer[A]) State() budget.State {
	for {
		a, ok := n.set.Resolve(n.upstream)
		if !ok {
			return budget.State{Upstream: n.upstream, Settings: budget.Never}
		}
		if s, ok := a.Look(); ok {
			return s
		}
	}
}
