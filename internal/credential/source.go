package credential

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/verdictproxy/verdict/internal/telemetry"
)

const (
	// remembered is how many of the last tokens are recognized.
	remembered = 8
	// young is the age below which a token's rejection says more about the upstream than about the token.
	young = time.Minute
	// rereadInterval is the least time between two readings of a file that unknown tokens cause.
	rereadInterval = time.Second
	// leastRenewal is the least time between a fetch and a renewal that nobody waits for.
	leastRenewal = 5 * time.Second
)

// Origin says whether a credential was issued by a source.
type Origin uint8

const (
	// NotOurs: it was not, as far as is known.
	NotOurs Origin = iota
	// Latest: it is the last one that this process got.
	Latest
	// Earlier: it was issued before that, or by another process.
	Earlier
)

// Source issues the credentials of one entry of the configuration. Its methods may be called by any
// number of goroutines, also after its entry has gone from the configuration.
type Source struct {
	name       string // the entry's first cluster
	scheme     string
	grants     grants
	marks      *marks // nil: a token file
	background *background
	log        *slog.Logger
	metrics    *telemetry.Credentials

	mu       sync.Mutex
	latest   *token // nil: none yet
	recent   [remembered]digest
	issued   int       // how many tokens recent has seen
	flight   *flight   // nil: no fetch runs
	fetching pause     // after a fetch that failed
	refusing pause     // after a refresh that was of no use
	failing  string    // the result of the last fetch where it failed
	asked    time.Time // when the last fetch that has ended began
	used     bool      // since the last fetch
	renewal  *time.Timer
	retired  bool
}

// grants is where tokens come from.
type grants interface {
	// fetch is bounded in time and size. Its error is a *failure.
	fetch(context.Context) (grant, error)
}

// grant is a token without the scheme. It is to be renewed at the age of renew, and not to be used at that
// of lifetime. published says that its expiry is worth telling.
type grant struct {
	token           string
	renew, lifetime time.Duration
	published       bool
}

// Current returns the value of the authorization header to send. It waits for a fetch where there is no
// token or the last one has expired; one that is about to is returned and renewed in the background. An
// error is ctx's, an ErrBackingOff, an ErrClosed or a failed fetch; none holds a secret.
func (s *Source) Current(ctx context.Context) (authorization string, err error) {
	s.mu.Lock()
	s.used = true
	now := time.Now()
	if t := s.latest; t.usable(now) {
		if !now.Before(t.renew) {
			s.join(now) // for later callers
		}
		s.mu.Unlock()
		return *t.authorization.text, nil
	}
	f, err := s.join(now)
	s.mu.Unlock()
	if err != nil {
		return "", s.wrap(err)
	}
	if err := f.wait(ctx); err != nil {
		return "", s.wrap(err)
	}
	return *f.token.authorization.text, nil
}

// Recognize compares an authorization value with the last 8 tokens that this process got; how long a
// comparison takes tells nothing of them. A token file is read again first where the value is none of
// these, for somebody else may have sent what stands there now: at most once a second, and waited for no
// longer than that.
func (s *Source) Recognize(authorization string) Origin {
	d := newDigest(authorization)
	origin := s.origin(d)
	if origin == NotOurs && s.marks == nil && s.reread() {
		origin = s.origin(d)
	}
	return origin
}

func (s *Source) origin(d digest) Origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := 0
	for i := range s.recent {
		if s.recent[i].equal(d) {
			known++
		}
	}
	latest := s.latest.is(d)
	switch {
	case latest:
		return Latest
	case known > 0:
		return Earlier
	}
	return NotOurs
}

// reread reports whether the file has been read since the call began.
func (s *Source) reread() bool {
	s.mu.Lock()
	now := time.Now()
	if now.Sub(s.asked) < rereadInterval {
		s.mu.Unlock()
		return false
	}
	f, err := s.join(now)
	s.mu.Unlock()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(s.background.ctx, rereadInterval)
	defer cancel()
	return f.wait(ctx) == nil
}

// Refresh makes Current return another token than rejected, which the caller has recognized. Where the
// latest one differs already, nothing is fetched. All callers share one fetch; one whose ctx ends leaves
// the others theirs.
//
// An error is ErrSameToken, an ErrBackingOff, ctx's, an ErrClosed or a failed fetch. The rejected token
// stays in use then, until it expires or a later fetch succeeds.
func (s *Source) Refresh(ctx context.Context, rejected string) error {
	d := newDigest(rejected)
	s.mu.Lock()
	s.used = true
	now := time.Now()
	if s.latest.usable(now) && !s.latest.is(d) {
		s.mu.Unlock()
		return nil
	}
	f, err := s.flight, error(nil)
	if f == nil {
		if err = s.refusing.refuses(now); err == nil {
			f, err = s.join(now)
		}
	}
	if err != nil {
		s.mu.Unlock()
		return s.wrap(err)
	}
	f.rejected = f.rejected || s.latest.is(d)
	s.mu.Unlock()
	if err := f.wait(ctx); err != nil {
		return s.wrap(err)
	}
	if f.token.is(d) {
		return s.wrap(ErrSameToken)
	}
	return nil
}

// renew replaces the latest token before it expires. One that nobody has asked for since it was fetched is
// left alone: the next one to ask has it renewed.
func (s *Source) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used && !s.retired {
		s.join(time.Now())
	}
}

// warm fetches the first token, so that nobody waits for it and a source that cannot work says so.
func (s *Source) warm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.join(time.Now())
}

// retire ends what the source does unasked.
func (s *Source) retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	s.stopRenewal()
}

func (s *Source) stopRenewal() {
	if s.renewal != nil {
		s.renewal.Stop()
	}
}

func (s *Source) wrap(err error) error {
	return fmt.Errorf("credential of %s: %w", s.name, err)
}

// Format writes the source's name, whatever the verb.
func (s *Source) Format(f fmt.State, _ rune) { io.WriteString(f, s.text()) }

// LogValue is the source's name.
func (s *Source) LogValue() slog.Value { return slog.StringValue(s.text()) }

func (s *Source) text() string { return "credential source of " + s.name }

// renewalAge is the age at which a token of that lifetime is renewed: at most five minutes and a quarter
// of its life before the end, at random, so that a fleet does not come together.
func renewalAge(lifetime time.Duration) time.Duration {
	early := min(5*time.Minute, lifetime/4)
	return lifetime - early/2 - rand.N(early/2+1)
}
