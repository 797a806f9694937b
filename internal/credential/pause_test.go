package credential

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// scripted stands in for an endpoint where only time is looked at.
type scripted struct {
	mu   sync.Mutex
	at   []time.Time
	next func(n int) (grant, error)
}

func (s *scripted) fetch(context.Context) (grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	return s.next(len(s.at))
}

func (s *scripted) says(next func(n int) (grant, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = next
}

// fetches are the times of all that there were.
func (s *scripted) fetches() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func numbered(n int) (grant, error) {
	return grant{token: fmt.Sprint(n), renew: 54 * time.Minute, lifetime: time.Hour}, nil
}

// under gives the test a source of what next says, in a bubble of its own.
func under(t *testing.T, next func(n int) (grant, error), test func(t *testing.T, s *Source, script *scripted)) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, "")
		script := &scripted{next: next}
		s := &Source{name: "app", scheme: "Bearer", grants: script, background: f.background, log: f.Set.log, metrics: f.metrics}
		t.Cleanup(s.retire)
		test(t, s, script)
	})
}

// A dead endpoint is asked after pauses that grow to half a minute, however many ask.
func TestPausesAfterFailures(t *testing.T) {
	t.Parallel()
	dead := failed(resultRefused, "dead")
	under(t, func(int) (grant, error) { return grant{}, dead }, func(t *testing.T, s *Source, script *scripted) {
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if _, err := s.Current(t.Context()); !errors.Is(err, dead) {
				t.Fatal(err)
			}
			if err := s.Refresh(t.Context(), "Bearer x"); !errors.Is(err, dead) {
				t.Fatal(err)
			}
		}
		want := firstPause
		fetches := script.fetches()
		for i := 1; i < len(fetches); i++ {
			// The loop adds up to its own step.
			if pause := fetches[i].Sub(fetches[i-1]); pause < want/2 || pause > want+100*time.Millisecond {
				t.Errorf("pause %d is %v, want %v to %v", i, pause, want/2, want)
			}
			want = min(2*want, longestPause)
		}
		if n := len(fetches); n < 20 || n > 45 {
			t.Errorf("%d fetches", n)
		}
		script.says(numbered)
		time.Sleep(longestPause)
		if got := current(t, s); got == "" {
			t.Error("nothing")
		}
		// The next failure begins anew.
		script.says(func(int) (grant, error) { return grant{}, dead })
		time.Sleep(time.Hour)
		s.Current(t.Context())
		time.Sleep(firstPause)
		n := len(script.fetches())
		s.Current(t.Context())
		if len(script.fetches()) != n+1 {
			t.Error("the first pause after a success is not the shortest")
		}
	})
}

// An upstream that rejects every token drives no endpoint: of tokens that are rejected young, each further
// one is paid by a pause.
func TestPausesAfterRejections(t *testing.T) {
	t.Parallel()
	under(t, numbered, func(t *testing.T, s *Source, script *scripted) {
		refused := 0
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if err := s.Refresh(t.Context(), current(t, s)); errors.Is(err, ErrBackingOff) {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if n := len(script.fetches()); n < 20 || n > 45 || refused < 5900 {
			t.Errorf("%d fetches, %d refused", n, refused)
		}
		// A token that has held for a while is replaced at once, and so is the one after it.
		for _, age := range []time.Duration{young + longestPause, 0} {
			time.Sleep(age)
			if err := s.Refresh(t.Context(), current(t, s)); err != nil {
				t.Errorf("at the age of %v: %v", age, err)
			}
		}
	})
}

// A token in use is renewed before it expires, and nobody waits for it; the old one holds meanwhile.
func TestRenewal(t *testing.T) {
	t.Parallel()
	under(t, numbered, func(t *testing.T, s *Source, script *scripted) {
		begun := time.Now()
		current(t, s)
		for time.Since(begun) < 24*time.Hour {
			time.Sleep(61 * time.Second) // never at the instant of a renewal
			n := len(script.fetches())
			current(t, s)
			if len(script.fetches()) != n {
				t.Fatalf("somebody waited after %v", time.Since(begun))
			}
			synctest.Wait()
		}
		if n := len(script.fetches()); n < 24 || n > 27 {
			t.Errorf("%d fetches in a day", n)
		}
		// Unused, it is left alone after one renewal.
		n := len(script.fetches())
		time.Sleep(24 * time.Hour)
		if got := len(script.fetches()); got > n+1 {
			t.Errorf("%d renewals that nobody wanted", got-n)
		}
		// One that comes late in its life is given the old one, and has it renewed.
		current(t, s)
		time.Sleep(55 * time.Minute)
		n = len(script.fetches())
		got := current(t, s)
		synctest.Wait()
		if now := current(t, s); now == got || len(script.fetches()) != n+1 {
			t.Errorf("%q after %q, %d fetches", now, got, len(script.fetches())-n)
		}
		// An endpoint that dies: the token holds until it expires.
		got = current(t, s)
		script.says(func(int) (grant, error) { return grant{}, failed(resultRefused, "dead") })
		fetches := script.fetches()
		last := fetches[len(fetches)-1]
		for time.Since(last) < time.Hour {
			if now := current(t, s); now != got {
				t.Fatalf("%q, want %q", now, got)
			}
			time.Sleep(time.Second)
		}
		if _, err := s.Current(t.Context()); err == nil {
			t.Error("it is handed out beyond its life")
		}
	})
}

// Renewals that begin together drift apart, and never come after the end.
func TestRenewalAge(t *testing.T) {
	t.Parallel()
	for _, lifetime := range []time.Duration{1, time.Millisecond, time.Second, time.Minute, time.Hour, longestLifetime} {
		seen := map[time.Duration]bool{}
		for range 100 {
			age := renewalAge(lifetime)
			if age < lifetime-lifetime/4-1 || age < lifetime-5*time.Minute-1 || age > lifetime {
				t.Fatalf("of %v: %v", lifetime, age)
			}
			seen[age] = true
		}
		if len(seen) < 50 && lifetime > 1 {
			t.Errorf("of %v: %d ages of 100", lifetime, len(seen))
		}
	}
}

// Tokens that die at once are asked for by those who need them, and by nobody else.
func TestShortLives(t *testing.T) {
	t.Parallel()
	short := func(n int) (grant, error) {
		return grant{token: fmt.Sprint(n), renew: 800 * time.Millisecond, lifetime: 900 * time.Millisecond}, nil
	}
	under(t, short, func(t *testing.T, s *Source, script *scripted) {
		current(t, s)
		time.Sleep(time.Hour)
		if n := len(script.fetches()); n != 1 {
			t.Errorf("%d fetches", n)
		}
		for range 100 {
			current(t, s)
			time.Sleep(time.Second)
		}
		if n := len(script.fetches()); n < 100 || n > 125 {
			t.Errorf("%d fetches in 100 s", n)
		}
	})
}
