package budget

import (
	"math"
	"time"
)

const (
	// Buckets an interval: the grain at which deposits are dated.
	Buckets = 50
	// EmptyFor is how long a refusal is remembered as "empty".
	EmptyFor = 50 * time.Millisecond

	// A spent reserve token counts for Buckets whole buckets after its own.
	ring = Buckets + 1
	// maxMilli bounds what one account holds; a deposit beyond it is lost, which is the safe side.
	maxMilli = 1_000_000_000_000_000
	// Instants beyond these, some 73 years before and after the clock's zero, count as these.
	maxNow = math.MaxInt64 / 4
	minNow = -maxNow
)

// A Ledger is the arithmetic of one account: exact integers, and time as an argument.
//
// Time is monotonic nanoseconds from any origin, cut into buckets of interval/50:
//   - Deposits keep their bucket and die at its start + interval. So a milli-token never lives longer
//     than an interval, and up to 1/50 less. The oldest are spent first, and a token made of several
//     deposits expires with the oldest, and returns there.
//   - A token of the reserve counts against M until an interval after the end of the bucket in which
//     it was spent. So no interval at all, wherever it begins, sees more than M.
//
// The ledger's own time never runs back: a call dated before an earlier one counts as at the same
// instant, so nothing expires and no reserve comes back until the clock has caught up. After a gap of
// any length, in one step: nothing earned, the full reserve.
//
// A Ledger is not safe for concurrent use: its owner holds a lock. Use NewLedger.
type Ledger struct {
	now        int64 // the latest instant seen
	end        int64 // of the current bucket
	earned     int64 // milli-tokens in all slots
	spent      int64 // reserve tokens that count against M, over all slots
	reserve    int64 // M
	ratio      int64
	cur        int64 // current bucket
	oldest     int64 // no bucket before it has earned milli-tokens
	lastID     uint64
	foreignID  uint64 // grants up to here are from before a reset
	emptyUntil int64
	touched    int64 // latest call that was not a mere look
	width      int64
	unlimited  bool
	settings   Settings
	returned   map[uint64]int64 // grants that came back, and their bucket, until they would have expired
	slots      [ring]slot
}

// slot is one bucket; bucket b lives in slots[b%ring].
type slot struct {
	earned  int64 // milli-tokens, zero once the bucket's deposits are dead
	reserve int64 // tokens spent
	firsts  int64
	retries int64
	refused int64
}

// NewLedger begins an account at now with nothing earned and the full reserve.
func NewLedger(s Settings, now int64) *Ledger {
	l := new(Ledger)
	l.Init(s, now)
	return l
}

// Init is NewLedger for a Ledger that is part of another struct.
func (l *Ledger) Init(s Settings, now int64) {
	*l = Ledger{}
	l.apply(s)
	l.now = clamp(now)
	l.touched = l.now
	l.emptyUntil = l.now
	l.seek()
	l.oldest = l.cur
}

func clamp(now int64) int64 { return min(max(now, minNow), maxNow) }

func (l *Ledger) apply(s Settings) {
	l.settings = s
	l.unlimited = s.IsUnlimited()
	l.ratio, l.reserve = 0, 0
	if s.pays() == limited {
		l.ratio, l.reserve = int64(s.Ratio), int64(s.Reserve)
		l.width = int64(s.Interval) / Buckets
	}
	if l.width == 0 {
		l.width = int64(DefaultSettings().Interval) / Buckets
	}
}

func (l *Ledger) seek() {
	l.cur = (l.now - minNow) / l.width // never negative
	l.end = (l.cur+1)*l.width + minNow
}

func (l *Ledger) slot(bucket int64) *slot { return &l.slots[uint64(bucket)%ring] }

// tick moves the ledger's time forward to now, never back.
func (l *Ledger) tick(now int64) {
	if now <= l.now {
		return
	}
	l.now = min(now, maxNow)
	if l.now >= l.end {
		l.turn()
	}
}

// turn lets die what has died since the current bucket ended.
func (l *Ledger) turn() {
	from := l.cur
	l.seek()
	if l.cur-from > Buckets {
		l.slots = [ring]slot{}
		l.earned, l.spent = 0, 0
	} else {
		for b := from + 1; b <= l.cur; b++ {
			dies := l.slot(b + 1) // bucket b-Buckets
			l.earned -= dies.earned
			dies.earned = 0
			leaves := l.slot(b) // bucket b-ring
			l.spent -= leaves.reserve
			*leaves = slot{}
		}
	}
	l.oldest = max(l.oldest, l.cur-Buckets+1)
	for id, bucket := range l.returned {
		if l.cur-bucket > Buckets {
			delete(l.returned, id)
		}
	}
}

// Now is the ledger's own time: the latest instant it was given.
func (l *Ledger) Now() int64 { return l.now }

// Settings are those in force.
func (l *Ledger) Settings() Settings { return l.settings }

// Deposit pays in for n first attempts and returns the milli-tokens they earned. n <= 0 changes
// nothing.
func (l *Ledger) Deposit(now int64, n int) int64 { return l.deposit(now, n, l.ratio) }

// DepositAs is Deposit by the ratio of s: for an account that several upstreams share.
func (l *Ledger) DepositAs(now int64, n int, s Settings) int64 { return l.deposit(now, n, s.milli()) }

func (l *Ledger) deposit(now int64, n int, ratio int64) int64 {
	if n <= 0 {
		return 0
	}
	l.tick(now)
	l.touched = l.now
	s := l.slot(l.cur)
	firsts := min(int64(n), maxMilli/Token)
	s.firsts = min(s.firsts+firsts, maxMilli)
	milli := min(firsts*ratio, maxMilli-l.earned)
	s.earned += milli
	l.earned += milli
	return milli
}

// Withdraw takes one token: of the earned if there is a whole one, else of the reserve.
func (l *Ledger) Withdraw(now int64) (Grant, bool) {
	l.tick(now)
	l.touched = l.now
	s := l.slot(l.cur)
	source, bucket := SourceEarned, l.cur
	switch {
	case l.unlimited:
		source = SourceUnlimited
	case l.earned >= Token:
		bucket = l.spendEarned()
	case l.spent < l.reserve:
		source = SourceReserve
		l.spent++
		s.reserve++
	default:
		l.emptyUntil = l.now + int64(EmptyFor)
		s.refused++
		return Grant{}, false
	}
	s.retries++
	l.lastID++
	return Grant{Issuer: l, ID: l.lastID, Source: source, Bucket: bucket, At: l.cur}, true
}

// spendEarned takes a token's worth, the oldest first, and returns the oldest one's bucket.
func (l *Ledger) spendEarned() int64 {
	l.earned -= Token
	for l.slot(l.oldest).earned == 0 {
		l.oldest++
	}
	for b, due := l.oldest, int64(Token); due > 0; b++ {
		s := l.slot(b)
		paid := min(s.earned, due)
		s.earned -= paid
		due -= paid
	}
	return l.oldest
}

// Return takes a grant back to the bucket it came from, and reports whether it did: it does so at
// most once, only for its own grants, and only while what paid for them has not expired.
func (l *Ledger) Return(now int64, g Grant) bool {
	l.tick(now)
	l.touched = l.now
	if g.Issuer != any(l) || g.ID <= l.foreignID || g.ID > l.lastID || l.expired(g) {
		return false
	}
	if _, twice := l.returned[g.ID]; twice {
		return false
	}
	if l.returned == nil {
		l.returned = make(map[uint64]int64)
	}
	l.returned[g.ID] = g.Bucket
	s := l.slot(g.Bucket)
	switch g.Source {
	case SourceEarned:
		s.earned += Token
		l.earned += Token
		l.oldest = min(l.oldest, g.Bucket)
	case SourceReserve:
		s.reserve--
		l.spent--
	}
	l.slot(g.At).retries--
	return true
}

func (l *Ledger) expired(g Grant) bool {
	lives := int64(Buckets) // after its bucket
	if g.Source == SourceEarned {
		lives--
	}
	return g.Bucket < l.cur-lives || g.Bucket > l.cur
}

// Empty reports a refusal younger than EmptyFor, or settings that never pay.
func (l *Ledger) Empty(now int64) bool {
	l.tick(now)
	return l.now < l.emptyUntil || !l.unlimited && l.ratio == 0 && l.reserve == 0 && l.earned < Token
}

// Idle reports whether an interval and a bucket have passed without deposit, withdrawal or return:
// everything has died, and a new Ledger would behave alike.
func (l *Ledger) Idle(now int64) bool { return clamp(now) >= l.IdleAt() }

// IdleAt is the instant from which on the account will be idle if it is left alone.
func (l *Ledger) IdleAt() int64 { return l.touched + ring*l.width }

// Change puts new settings in force and refills nothing: what was earned, and what was spent of the
// reserve, stays. Where that cannot be carried over, because the interval is another one or because
// grants were not counted (Unlimited), nothing is earned, the reserve counts as just spent, and older
// grants cannot be returned.
func (l *Ledger) Change(now int64, s Settings) {
	if s == l.settings {
		return
	}
	l.tick(now)
	width, uncounted := l.width, l.unlimited
	l.apply(s)
	if l.width == width && !uncounted {
		return
	}
	l.seek()
	l.slots = [ring]slot{}
	l.oldest, l.earned, l.spent = l.cur, 0, l.reserve
	l.slot(l.cur).reserve = l.reserve
	l.returned, l.foreignID = nil, l.lastID
	l.touched = l.now
}

// State is a snapshot; Upstream is left to the caller.
func (l *Ledger) State(now int64) State {
	l.tick(now)
	st := State{Settings: l.settings, EarnedMilli: l.earned, ReserveLeft: max(l.reserve-l.spent, 0)}
	for b := max(l.cur-Buckets+1, 0); b <= l.cur; b++ {
		s := l.slot(b)
		st.Firsts += s.firsts
		st.Retries += s.retries
		st.Refused += s.refused
	}
	return st
}
