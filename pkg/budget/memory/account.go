package memory

import (
	"context"
	"fmt"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/internal/accounts"
)

// account is one upstream's ledger under a lock, and the handle to it. Each is an allocation of its
// own of more than a kilobyte, so two upstreams share no cache line; what every call needs of the
// Budget is copied here, because the lock of its accounts dirties the Budget's own lines.
type account struct {
	accounts.Door
	clock  func() int64
	log    *budget.EventLog
	ledger budget.Ledger

	budget   *Budget
	upstream string
	serial   int // makes grant ids unique when an upstream gets its second account
}

// again is where the calls of an evicted account go.
func (a *account) again() accounts.Newcomer[*account] {
	return a.budget.accounts.Newcomer(a.upstream)
}

// Name and the other methods of accounts.Account are documented there.
func (a *account) Name() string { return a.upstream }

func (a *account) Deposit(n int) {
	if n <= 0 {
		return
	}
	if !a.Enter() {
		a.again().Deposit(n)
		return
	}
	a.Pay(n)
	a.Leave()
}

func (a *account) Pay(n int) {
	milli := a.ledger.Deposit(a.clock(), n)
	if a.log != nil {
		a.logDeposit(n, milli)
	}
}

func (a *account) PayAs(n int, s budget.Settings) {
	milli := a.ledger.DepositAs(a.clock(), n, s)
	if a.log != nil {
		a.logDeposit(n, milli)
	}
}

func (a *account) TryWithdraw(ctx context.Context) (budget.Grant, bool) {
	if !a.Enter() {
		return a.again().TryWithdraw(ctx)
	}
	g, ok := a.ledger.Withdraw(a.clock())
	if ok && a.log != nil {
		g, ok = a.logGrant(g)
	}
	a.Leave()
	return g, ok
}

func (a *account) Take(context.Context) (budget.Grant, bool) {
	g, ok := a.ledger.Withdraw(a.clock())
	if ok && a.log != nil {
		return a.logGrant(g)
	}
	return g, ok
}

func (a *account) Return(g budget.Grant) {
	if shared := a.budget.accounts.Shared(); a != shared && g.Issuer == any(&shared.ledger) {
		a = shared // granted when this upstream was a newcomer
	}
	if !a.Enter() {
		return // idle for longer than any of its grants lives
	}
	if a.ledger.Return(a.clock(), g) && a.log != nil {
		a.logReturn(g)
	}
	a.Leave()
}

func (a *account) Empty() bool {
	if !a.Enter() {
		return a.again().Empty()
	}
	defer a.Leave()
	return a.IsEmpty()
}

func (a *account) IsEmpty() bool { return a.ledger.Empty(a.clock()) }

func (a *account) State() budget.State {
	if s, ok := a.Look(); ok {
		return s
	}
	return a.again().State()
}

func (a *account) Look() (budget.State, bool) {
	if !a.Enter() {
		return budget.State{}, false
	}
	defer a.Leave()
	s := a.ledger.State(a.clock())
	s.Upstream = a.upstream
	return s, true
}

func (a *account) RetireIdle(now int64) (retired bool, idleAt int64) {
	a.Hold()
	defer a.Leave()
	a.Gone = a.Gone || a.ledger.Idle(now)
	return a.Gone, a.ledger.IdleAt()
}

func (a *account) Change(s budget.Settings) {
	a.Hold()
	a.ledger.Change(a.clock(), s)
	a.Leave()
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
