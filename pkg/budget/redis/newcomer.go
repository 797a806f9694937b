package redis

import (
	"context"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// newcomer is a handle that looks its account up anew at every call: for upstreams that share, and
// for calls on an account that was evicted.
type newcomer struct {
	budget   *Budget
	upstream string
}

// lock returns the account that stands for the upstream, locked; nil when the budget is closed.
func (n newcomer) lock() *account {
	for {
		a := n.budget.resolve(n.upstream)
		if a == nil || a.lock() {
			return a
		}
	}
}

func (n newcomer) Deposit(k int) {
	if k <= 0 {
		return
	}
	s := n.budget.settings(n.upstream)
	a := n.lock()
	if a == nil {
		return
	}
	defer a.mu.Unlock()
	ratio := a.ratio
	if a == n.budget.shared {
		ratio = ratioOf(s)
	}
	a.deposit(k, ratio)
}

func (n newcomer) TryWithdraw(ctx context.Context) (g budget.Grant, ok bool) {
	s := n.budget.settings(n.upstream)
	a := n.lock()
	if a == nil {
		return budget.Grant{}, false
	}
	defer a.mu.Unlock()
	if n.barred(a, s) {
		return budget.Grant{}, false
	}
	ok = a.withdraw(ctx, &g)
	return g, ok
}

// barred: what lies in the shared account was earned by others.
func (n newcomer) barred(a *account, s budget.Settings) bool {
	return a == n.budget.shared && (s.IsNever() || s.IsUnlimited())
}

func (n newcomer) Return(g budget.Grant) {
	if a := n.budget.resolve(n.upstream); a != nil {
		a.Return(g)
	}
}

func (n newcomer) Empty() bool {
	s := n.budget.settings(n.upstream)
	a := n.lock()
	if a == nil {
		return true
	}
	defer a.mu.Unlock()
	return n.barred(a, s) || a.empty()
}

func (n newcomer) State() budget.State {
	a := n.budget.resolve(n.upstream)
	if a == nil {
		return budget.State{Upstream: n.upstream, Settings: budget.Never}
	}
	a.refresh(a.budget.wait)
	if s, ok := a.look(); ok {
		return s
	}
	return budget.State{Upstream: n.upstream, Settings: budget.Never}
}
