package budget

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// model is the ledger's type comment in the most direct form: a list of what was paid in and spent.
type model struct {
	s        Settings
	now      int64
	deposits []part  // by bucket
	reserve  []int64 // buckets
	returned map[uint64]bool
}

type part struct{ bucket, milli int64 }

func (m *model) width() int64 { return int64(m.s.Interval) / 50 }

func (m *model) tick(now int64) (bucket int64) {
	m.now = max(m.now, now)
	bucket = (m.now - minNow) / m.width()
	m.deposits = slices.DeleteFunc(m.deposits, func(p part) bool { return p.bucket+50 <= bucket || p.milli == 0 })
	m.reserve = slices.DeleteFunc(m.reserve, func(b int64) bool { return b+1+50 <= bucket })
	return bucket
}

func (m *model) earned() (total int64) {
	for _, p := range m.deposits {
		total += p.milli
	}
	return total
}

func (m *model) deposit(now int64, n int) {
	m.deposits = append(m.deposits, part{m.tick(now), int64(n * m.s.Ratio)})
}

func (m *model) withdraw(now int64) (Source, int64) {
	cur := m.tick(now)
	if m.earned() >= 1000 {
		oldest, due := int64(-1), int64(1000)
		for i := range m.deposits {
			p := &m.deposits[i]
			paid := min(p.milli, due)
			if p.milli -= paid; paid > 0 && oldest < 0 {
				oldest = p.bucket
			}
			due -= paid
		}
		return SourceEarned, oldest
	}
	if len(m.reserve) < m.s.Reserve {
		m.reserve = append(m.reserve, cur)
		return SourceReserve, cur
	}
	return SourceUnknown, 0
}

func (m *model) giveBack(now int64, g Grant) bool {
	cur := m.tick(now)
	if m.returned[g.ID] || g.ID == 0 {
		return false
	}
	switch {
	case g.Source == SourceEarned && g.Bucket+50 > cur:
		m.deposits = append(m.deposits, part{g.Bucket, 1000})
		slices.SortStableFunc(m.deposits, func(x, y part) int { return int(x.bucket - y.bucket) })
	case g.Source == SourceReserve && g.Bucket+51 > cur:
		i := slices.Index(m.reserve, g.Bucket)
		m.reserve = slices.Delete(m.reserve, i, i+1)
	default:
		return false
	}
	m.returned[g.ID] = true
	return true
}

// Whatever happens in whatever order, the ledger does and holds what the model does and holds.
func TestLedgerAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		var key [32]byte
		key[0], key[1] = byte(seed), byte(seed>>8)
		r := rand.New(rand.NewChaCha8(key))
		s := Settings{Ratio: r.IntN(1001), Reserve: r.IntN(30), Interval: time.Duration(1000+r.IntN(59001)) * time.Millisecond}
		now := r.Int64N(int64(time.Hour)) - int64(30*time.Minute)
		l, m := NewLedger(s, now), &model{s: s, now: now, returned: map[uint64]bool{}}
		grants := []Grant{{}}
		for step := range 1500 {
			switch r.IntN(12) {
			case 0, 1, 2:
				now += r.Int64N(int64(s.Interval) / 50)
			case 3:
				now += r.Int64N(int64(s.Interval))
			case 4:
				now += int64(s.Interval)/50*(48+r.Int64N(5)) + r.Int64N(3) - 1
			case 5:
				now -= r.Int64N(int64(s.Interval) / 10)
			}
			switch r.IntN(6) {
			case 0, 1:
				n := 1 + r.IntN(20)
				l.Deposit(now, n)
				m.deposit(now, n)
			case 2, 3, 4:
				g, ok := l.Withdraw(now)
				source, bucket := m.withdraw(now)
				if ok != (source != SourceUnknown) || g.Source != source || ok && g.Bucket != bucket {
					t.Fatalf("seed %d step %d: got %+v, want %v from bucket %d", seed, step, g, source, bucket)
				}
				grants = append(grants, g)
			default:
				g := grants[max(0, len(grants)-1-r.IntN(20))]
				if got, want := l.Return(now, g), m.giveBack(now, g); got != want {
					t.Fatalf("seed %d step %d: return of %+v: %v, want %v", seed, step, g, got, want)
				}
			}
			m.tick(now)
			st := l.State(now)
			if st.EarnedMilli != m.earned() || st.ReserveLeft != int64(s.Reserve-len(m.reserve)) || l.Now() != m.now {
				t.Fatalf("seed %d step %d: holds %+v, want %d milli-tokens, %d of the reserve spent", seed, step, st, m.earned(), len(m.reserve))
			}
			if len(l.returned) > 0 && len(l.returned) > len(grants) {
				t.Fatalf("seed %d: remembers %d returns of %d grants", seed, len(l.returned), len(grants))
			}
		}
	}
}

const second = int64(time.Second)

var ten = Settings{Ratio: 1000, Reserve: 3, Interval: 10 * time.Second}

func drain(l *Ledger, now int64) (n int) {
	for {
		if _, ok := l.Withdraw(now); !ok {
			return n
		}
		n++
	}
}

func TestLedgerEdges(t *testing.T) {
	const width = second / 5
	start := (int64(0)-minNow)/width*width + minNow + width // of a bucket
	for _, c := range []struct {
		teaches string
		at      int64 // when a deposit and the whole reserve are used
		later   int64
		want    int // tokens then
	}{
		{"a deposit at its bucket's start lives an interval, to the nanosecond", start, start + 10*second - 1, 1},
		{"and not one longer", start, start + 10*second, 0},
		{"a deposit at its bucket's end lives a bucket less", start + width - 1, start + 10*second - 1, 1},
		{"to the nanosecond too", start + width - 1, start + 10*second, 0},
		{"the reserve spent at a bucket's end counts for an interval", start + width - 1, start + width - 1 + 10*second, 0},
		{"and is back one nanosecond later", start + width - 1, start + width + 10*second, 3},
		{"spent at a bucket's start it counts as long", start, start + width - 1 + 10*second, 0},
		{"after an idle gap: nothing earned, the full reserve", start, start + 1000*second, 3},
		{"after a gap of years too", start, math.MaxInt64, 3},
	} {
		l := NewLedger(ten, c.at)
		if n := drain(l, c.at); n != 3 {
			t.Fatalf("%s: a new ledger granted %d, want its reserve of 3", c.teaches, n)
		}
		l.Deposit(c.at, 1)
		if got := drain(l, c.later); got != c.want {
			t.Errorf("%s: got %d tokens, want %d", c.teaches, got, c.want)
		}
	}
}

func TestClockStepsBack(t *testing.T) {
	l := NewLedger(ten, 100*second)
	l.Deposit(100*second, 2)
	if g, _ := l.Withdraw(40 * second); g.Source != SourceEarned || l.Now() != 100*second {
		t.Fatalf("a minute back: got %v at %d, want an earned token at the latest instant", g.Source, l.Now())
	}
	if n := drain(l, 40*second); n != 4 {
		t.Fatalf("granted %d, want the second deposit and the reserve", n)
	}
	for now := 40 * second; now < 110*second; now += second {
		if n := drain(l, now); n != 0 {
			t.Fatalf("granted %d at %d s: time that passed twice refilled it", n, now/second)
		}
	}
	if n := drain(l, 110*second+second/5); n != 3 {
		t.Fatalf("granted %d once the clock has caught up, want the reserve", n)
	}
}

// No instant and no number makes it panic, overflow, or pay more than it holds.
func TestLedgerExtremes(t *testing.T) {
	for _, start := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		l := NewLedger(ten, start)
		for _, now := range []int64{math.MinInt64, -1, 0, math.MaxInt64 / 2, math.MaxInt64, 0, math.MinInt64} {
			for range 3 {
				l.Deposit(now, math.MaxInt)
			}
			if st := l.State(now); st.EarnedMilli < 0 || st.EarnedMilli > maxMilli || st.Firsts < 0 {
				t.Fatalf("start %d, now %d: %+v", start, now, st)
			}
			if g, ok := l.Withdraw(now); !ok || !l.Return(now, g) {
				t.Fatalf("start %d, now %d: %+v, %v", start, now, g, ok)
			}
			for _, g := range []Grant{
				{Issuer: l, ID: math.MaxUint64}, {Issuer: l, ID: 1, Source: 99, Bucket: math.MinInt64, At: math.MinInt64},
				{Issuer: []int{}, ID: 1}, {ID: 1, Source: SourceEarned},
			} {
				if l.Return(now, g) {
					t.Fatalf("took %+v", g)
				}
			}
			l.Idle(now)
			l.Empty(now)
		}
	}
}

func TestIdleMeansNothingIsLeft(t *testing.T) {
	l := NewLedger(ten, 0)
	l.Deposit(5*second, 1)
	drain(l, 5*second)
	at := l.IdleAt()
	if l.Idle(at-1) || !l.Idle(at) || at > 5*second+10*second+second/5 {
		t.Fatalf("idle at %d", at)
	}
	fresh := NewLedger(ten, at)
	if diff := cmp.Diff(fresh.State(at), l.State(at), cmp.AllowUnexported(Settings{})); diff != "" {
		t.Fatalf("an idle ledger differs from a new one: %s", diff)
	}
	if l.State(at + second); l.IdleAt() != at {
		t.Fatal("a look counts as use")
	}
}

func TestChangeRefillsNothing(t *testing.T) {
	more := ten
	more.Ratio, more.Reserve = 500, 5
	less := ten
	less.Reserve = 1
	shorter := ten
	shorter.Interval = 2 * time.Second
	for _, c := range []struct {
		teaches  string
		from, to Settings
		later    int64 // after the change
		want     int
	}{
		{"the same settings", ten, ten, 0, 0},
		{"a larger reserve gives the difference", ten, more, 0, 2},
		{"a smaller one gives nothing", ten, less, 0, 0},
		{"another interval begins with the reserve spent", ten, shorter, 0, 0},
		{"which is back after the new interval", ten, shorter, 3 * second, 3},
		{"Never", ten, Never, 100 * second, 0},
		{"from Never nothing was spent", Never, ten, 0, 3},
		{"invalid is Never", ten, Settings{}, 100 * second, 0},
	} {
		l := NewLedger(c.from, 0)
		if !c.from.IsUnlimited() {
			drain(l, second)
		}
		l.Change(second, c.to)
		if got := drain(l, second+c.later); got != c.want {
			t.Errorf("%s: granted %d, want %d", c.teaches, got, c.want)
		}
	}
	t.Run("by way of Never and back", func(t *testing.T) {
		l := NewLedger(ten, 0)
		drain(l, 0)
		l.Change(second, Never)
		l.Change(2*second, ten)
		if got := drain(l, 2*second); got != 0 {
			t.Errorf("granted %d", got)
		}
	})
	t.Run("from Unlimited, whose grants nobody counted", func(t *testing.T) {
		l := NewLedger(Unlimited, 0)
		g, _ := l.Withdraw(0)
		l.Change(second, ten)
		if got := drain(l, second); got != 0 {
			t.Errorf("granted %d", got)
		}
		if l.Return(second, g) {
			t.Error("took a grant from before")
		}
		if got := drain(l, 12*second); got != 3 {
			t.Errorf("granted %d an interval later", got)
		}
	})
	t.Run("a grant from before can be returned where the interval stays", func(t *testing.T) {
		l := NewLedger(ten, 0)
		g, _ := l.Withdraw(0)
		l.Change(second, less)
		if !l.Return(second, g) {
			t.Error("refused")
		}
	})
}

// Returns are remembered for as long as they could be returned again, not longer.
func TestReturnsAreForgotten(t *testing.T) {
	s := ten
	s.Reserve = 1000
	l := NewLedger(s, 0)
	for i := range int64(100) {
		now := i * 20 * second
		for range 1000 {
			g, ok := l.Withdraw(now)
			if !ok || !l.Return(now, g) {
				t.Fatal("refused")
			}
		}
		if n := len(l.returned); n > 1000 {
			t.Fatalf("remembers %d returns", n)
		}
	}
}
