package credential

import (
	"context"
	"errors"
	"time"
)

// flight is one running fetch.
type flight struct {
	done     chan struct{}
	rejected bool // the token that it replaces; under Source.mu

	// When done is closed:
	token *token
	err   error
}

// join returns the running fetch, or begins one; s.mu is held. (With singleflight there would be a gap
// between the look at the latest token and the joining, and a second fetch in it.)
func (s *Source) join(now time.Time) (*flight, error) {
	if s.flight != nil {
		return s.flight, nil
	}
	if err := s.fetching.refuses(now); err != nil {
		return nil, err
	}
	f := &flight{done: make(chan struct{})}
	if !s.background.run(func(ctx context.Context) { s.fly(ctx, f) }) {
		return nil, ErrClosed
	}
	s.flight = f
	return f, nil
}

func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Source) fly(ctx context.Context, f *flight) {
	asked := time.Now()
	g, err := s.grants.fetch(ctx)
	if ctx.Err() != nil {
		err = ErrClosed
	}
	s.mu.Lock()
	now := time.Now()
	s.flight, s.asked = nil, asked
	var same bool
	if f.err = err; err == nil {
		f.token, same = s.issue(asked, now, g, f.rejected)
	}
	was, result := s.failing, resultOf(err)
	switch {
	case errors.Is(err, ErrClosed):
	case err != nil:
		s.fetching.grow(now, err)
		s.failing = result
	case same && f.rejected:
		result = resultSameToken
		s.failing = result
	case same && s.failing == resultSameToken: // still the one that was rejected
	default:
		s.failing = ""
	}
	is := s.failing
	if !s.retired && !errors.Is(err, ErrClosed) {
		s.metrics.Fetched(s.name, result)
	}
	s.mu.Unlock()
	close(f.done)
	if was != is {
		s.report(is, err)
	}
}

// issue takes a grant in; s.mu is held. The token's life is counted from before it was asked for.
func (s *Source) issue(asked, now time.Time, g grant, rejected bool) (t *token, same bool) {
	authorization := s.scheme + " " + g.token
	t = &token{
		authorization: newSecret(authorization),
		digest:        newDigest(authorization),
		issued:        now,
		renew:         asked.Add(g.renew),
		expires:       asked.Add(g.lifetime),
	}
	previous := s.latest
	same = previous.is(t.digest)
	s.latest, s.used, s.fetching = t, false, pause{}
	if same {
		t.issued = previous.issued
	} else {
		s.recent[s.issued%remembered] = t.digest
		s.issued++
	}
	switch {
	case rejected && same:
		s.refusing.grow(now, ErrSameToken)
	case rejected && previous != nil && now.Sub(previous.issued) < young:
		s.refusing.grow(now, nil)
	case rejected:
		s.refusing = pause{}
	}
	published := t.expires
	if !g.published {
		published = time.Time{}
	}
	if !s.retired {
		s.metrics.Issued(s.name, now, published)
		s.stopRenewal()
		s.renewal = time.AfterFunc(max(leastRenewal, time.Until(t.renew)), s.renew)
	}
	return t, same
}

// report writes one line when a source begins to fail, fails in another way, or works again.
func (s *Source) report(result string, err error) {
	switch result {
	case "":
		s.log.Info("the credential source works again", "upstream", s.name)
	case resultSameToken:
		s.log.Warn("the upstream rejected its credential, and the source gave the same one again", "upstream", s.name)
	default:
		s.log.Warn("the credential source fails", "upstream", s.name, "result", result, "error", err)
	}
}
