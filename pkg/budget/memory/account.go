package memory

import (
	"context"
	"fmt"
	"sync"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// account is one upstream's ledger under a lock, and the handle to it. Each is an allocation of its
// own of more than a kilobyte, so two upstreams share no cache line; what every call needs of the
// Budget is copied here, because Budget.mu dirties the Budget's own lines.
type account struct {
	mu     sync.Mutex
	gone   bool // evicted, or the budget is closed
	clock  func() int64
	log    *budget.EventLog
	ledger budget.Ledger

	budget   *Budget
	upstream string
	serial   int // makes grant ids unique when an upstream gets its second account
}

// lock locks the account, unless it no longer stands for its upstream.
//
// Callers read the clock with the lock held: a call that had to wait must not act by an older time.
func (a *account) lock() bool {
	a.mu.Lock()
	if a.gone {
		a.mu.Unlock()
		return false
	}
	return true
}

// again is where the calls of an evicted account go.
func (a *account) again() newcomer { return newcomer{a.budget, a.upstream} }

func (a *account) Deposit(n int) {
	if n <= 0 {
		return
	}
	if !a.lock() {
		a.again().Deposit(n)
		return
	}
	milli := a.ledger.Deposit(a.clock(), n)
	if a.log != nil {
		a.logDeposit(n, milli)
	}
	a.mu.Unlock()
}

func (a *account) TryWithdraw(ctx context.Context) (budget.Grant, bool) {
	if !a.lock() {
		return a.again().TryWithdraw(ctx)
	}
	g, ok := a.ledger.Withdraw(a.clock())
	if ok && a.log != nil {
		g, ok = a.logGrant(g)
	}
	a.mu.Unlock()
	return g, ok
}

func (a *account) Return(g budget.Grant) {
	if shared := a.budget.shared; a != shared && g.Issuer == any(&shared.ledger) {
		a = shared // granted when this upstream was a newcomer
	}
	if !a.lock() {
		return // idle for longer than any of its grants lives
	}
	if a.ledger.Return(a.clock(), g) && a.log != nil {
		a.logReturn(g)
	}
	a.mu.Unlock()
}

func (a *account) Empty() bool {
	if !a.lock() {
		return a.again().Empty()
	}
	defer a.mu.Unlock()
	return a.ledger.Empty(a.clock())
}

func (a *account) State() budget.State {
	if s, ok := a.look(); ok {
		return s
	}
	return a.again().State()
}

func (a *account) look() (budget.State, bool) {
	if !a.lock() {
		return budget.State{}, false
	}
	defer a.mu.Unlock()
	s := a.ledger.State(a.clock())
	s.Upstream = a.upstream
	return s, true
}

// retire makes handles look elsewhere from now on.
func (a *account) retire() {
	a.mu.Lock()
	a.gone = true
	a.mu.Unlock()
}

// retireIdle retires an account that is idle; else it says when it will be, left alone.
func (a *account) retireIdle(now int64) (retired bool, idleAt int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = a.gone || a.ledger.Idle(now)
	return a.gone, a.ledger.IdleAt()
}

func (a *account) change(s budget.Settings) {
	a.mu.Lock()
	a.ledger.Change(a.clock(), s)
	a.mu.Unlock()
}

// The log functions are called after the ledger counted and before the lock is let go, so nobody sees
// an effect that is not written. Where the write fails, a token is spent that nobody got. That a
// deposit or a return stays in the ledger gives nothing away: nothing is granted after a failed write.

func (a *account) logDeposit(n int, milli int64) {
	_ = a.log.Write(budget.Event{
		Mono: a.ledger.Now(), Account: a.upstream, Kind: budget.KindDeposit, Firsts: n, Milli: milli,
	})
}

func (a *account) logGrant(g budget.Grant) (budget.Grant, bool) {
	if a.logToken(budget.KindGrant, g) != nil {
		return budget.Grant{}, false
	}
	return g, true
}

func (a *account) logReturn(g budget.Grant) { _ = a.logToken(budget.KindReturn, g) }

func (a *account) logToken(kind budget.Kind, g budget.Grant) error {
	return a.log.Write(budget.Event{
		Mono: a.ledger.Now(), Account: a.upstream, Kind: kind, Milli: budget.Token,
		Source: g.Source, Grant: fmt.Sprintf("%d.%d", a.serial, g.ID),
	})
}
