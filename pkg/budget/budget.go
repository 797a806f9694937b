package budget

import (
	"context"
	"fmt"
)

// Token is the price of one retry in milli-tokens.
const Token = 1000

// A Budget holds one account per upstream. It is safe for concurrent use.
type Budget interface {
	// Account resolves an upstream's account and creates it when there is none. It never fails:
	// where a backend bounds its accounts, newcomers beyond the bound share one that has no reserve,
	// and so do all that give no name (""). The result may be kept for as long as the Budget lives.
	Account(upstream string) Account
	// List shows all accounts, ordered by upstream, first the shared one ("") if it is in use.
	List() []State
	// Close ends the budget: from now on nothing is granted, and deposits and returns change nothing.
	Close() error
}

// An Account pays for the retries towards one upstream. It is safe for concurrent use.
type Account interface {
	// Deposit pays in for n first attempts, dated now. n <= 0 changes nothing.
	Deposit(n int)
	// TryWithdraw takes one token, checking and spending in one step; false means that there is none,
	// and then nothing was spent. ctx bounds the wait for a remote backend; memory never waits and
	// does not look at it.
	TryWithdraw(ctx context.Context) (Grant, bool)
	// Return takes back a grant whose retry was not said. It counts once, and only before the grant
	// has expired; a second Return, an expired grant, another account's and the zero Grant change
	// nothing.
	Return(Grant)
	// Empty reports a refusal younger than EmptyFor, without asking for a token. false says nothing:
	// the budget may have run out since. An account that can never pay (Never) is always empty.
	Empty() bool
	// State is a snapshot for metrics and tools.
	State() State
}

// A Grant is the permission for one retry. It is a value: keep it to Return it, or drop it. The
// fields are the backend's, which fills them and compares them when the grant comes back.
type Grant struct {
	Issuer any    // compared by identity: who gave it, and the only one that takes it back
	ID     uint64 // from 1, unique to the issuer; 0 is no grant
	Source Source
	Bucket int64 // time bucket that its oldest milli-token came from, and to which it returns
	At     int64 // time bucket in which it was granted
}

// Source says what paid for a grant.
type Source uint8

const (
	SourceUnknown   Source = iota // no grant
	SourceEarned                  // deposits of the last interval
	SourceReserve                 // the reserve
	SourceUnlimited               // nothing: the account's settings are Unlimited
)

var sourceNames = [...]string{"unknown", "earned", "reserve", "unlimited"}

func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return fmt.Sprintf("Source(%d)", uint8(s))
}

// MarshalText writes the name, as in the event log.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name that MarshalText wrote; any other is an error.
func (s *Source) UnmarshalText(text []byte) error {
	for i, name := range sourceNames {
		if name == string(text) {
			*s = Source(i)
			return nil
		}
	}
	return fmt.Errorf("unknown source %q", text)
}

// State is what an account held at one instant. The figures of the window cover the current time
// bucket and the 49 before it, that is between 49/50 of an interval and a whole one.
type State struct {
	Upstream    string
	Settings    Settings
	EarnedMilli int64 // milli-tokens that can be spent now
	ReserveLeft int64 // tokens of the reserve that can be spent now
	Firsts      int64 // first attempts deposited in the window
	Retries     int64 // grants of the window, without the returned ones
	Refused     int64 // withdrawals refused in the window
}
