package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCurrentAndRefresh(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	f := start(t, oauth(e.URL, ""))
	s := f.Source("app")
	if f.Source("other") != nil {
		t.Error("another upstream has a source")
	}
	first := current(t, s)
	if first != "Bearer "+tokenPrefix+"1" || current(t, s) != first {
		t.Errorf("%q", first)
	}
	if err := refresh(t, s, first); err != nil {
		t.Fatal(err)
	}
	second := current(t, s)
	if second == first {
		t.Error("refreshed, and still the same")
	}
	// A late 401 to the first one.
	if err := refresh(t, s, first); err != nil || current(t, s) != second {
		t.Errorf("%v, %q", err, current(t, s))
	}
	if n := e.requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestRecognize(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	s := start(t, oauth(e.URL, "")).Source("app")
	var issued []string
	for range remembered + 1 {
		now := current(t, s)
		issued = append(issued, now)
		if got := s.Recognize(now); got != Latest {
			t.Errorf("the latest token is %v", got)
		}
		forgive(s)
		if err := refresh(t, s, now); err != nil {
			t.Fatal(err)
		}
	}
	for i, authorization := range issued {
		want := Earlier
		if i < 2 {
			want = NotOurs // too long ago
		}
		if got := s.Recognize(authorization); got != want {
			t.Errorf("token %d is %v, want %v", i, got, want)
		}
	}
	latest := current(t, s)
	for _, other := range []string{"", "Bearer", "Bearer ", "bearer" + latest[6:], latest + " ", latest[:len(latest)-1], latest[7:], strings.Repeat("x", 1<<20)} {
		if got := s.Recognize(other); got != NotOurs {
			t.Errorf("%.40q is %v", other, got)
		}
	}
}

// However many attempts meet a 401 at once, the endpoint is asked once.
func TestConcurrentRefreshesShareOneFetch(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	s := start(t, oauth(e.URL, "")).Source("app")
	rejected := current(t, s)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := refresh(t, s, rejected); err != nil {
				t.Error(err)
			}
			if now, err := s.Current(t.Context()); err != nil || now == rejected {
				t.Error("refreshed, and still the same")
			}
		})
	}
	all.Wait()
	if n := e.requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// A caller that leaves takes nothing from the others.
func TestCancelledWaiter(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	s := start(t, oauth(e.URL, "")).Source("app")
	rejected := current(t, s)
	let, asked := make(chan struct{}), make(chan struct{}, 10)
	e.answers(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-let
		issue(w, `{"access_token":"other","token_type":"bearer"}`)
	})
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- s.Refresh(leaving, rejected) }()
	<-asked
	stayed := make(chan error, 1)
	go func() { stayed <- refresh(t, s, rejected) }()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that left got %v", err)
	}
	close(let)
	if err := <-stayed; err != nil {
		t.Errorf("the one that stayed got %v", err)
	}
	if got := current(t, s); got != "Bearer other" {
		t.Errorf("%q", got)
	}
}

func TestSameTokenAgain(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	var token atomic.Value
	token.Store("first")
	e.answers(func(w http.ResponseWriter, r *http.Request) {
		issue(w, fmt.Sprintf(`{"access_token":%q,"token_type":"bearer","expires_in":600}`, token.Load()))
	})
	f := start(t, oauth(e.URL, ""))
	s := f.Source("app")
	rejected := current(t, s)
	if err := refresh(t, s, rejected); !errors.Is(err, ErrSameToken) || errors.Is(err, ErrBackingOff) {
		t.Errorf("%v", err)
	}
	// Remembered: the endpoint is not asked again at once.
	if err := refresh(t, s, rejected); !errors.Is(err, ErrSameToken) || !errors.Is(err, ErrBackingOff) {
		t.Errorf("%v", err)
	}
	if n := e.requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	if current(t, s) != rejected {
		t.Error("the only token there is has gone")
	}
	token.Store("second")
	eventually(t, "another token after the pause", func() bool { return refresh(t, s, rejected) == nil })
	eventually(t, "a line that it works again", func() bool { return strings.Contains(f.log.String(), "works again") })
	if n := strings.Count(f.log.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want one for each change:\n%s", n, f.log)
	}
}
