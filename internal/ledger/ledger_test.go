package ledger

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/verdictproxy/verdict/pkg/decision"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clocked returns a ledger whose time is a second later at each look.
func clocked(size int) *Ledger {
	at := time.Unix(0, 0)
	return New(size, func() time.Time { at = at.Add(time.Second); return at })
}

func ids(cases []*Case) string {
	var names []string
	for _, c := range cases {
		names = append(names, c.CaseID)
	}
	return strings.Join(names, " ")
}

func wantAll(t *testing.T, l *Ledger, want string) {
	t.Helper()
	cases, more := l.List(Filter{}, 0, 1000)
	if got := ids(cases); got != want || more {
		t.Errorf("%q, more %v, want %q", got, more, want)
	}
}

func TestResolvedMakeRoomFirst(t *testing.T) {
	l := clocked(4)
	for _, id := range []string{"a", "b", "c", "d"} {
		l.Enter(Entry{CaseID: id})
	}
	for _, id := range []string{"c", "b"} {
		if _, err := l.Resolve(id, Executed, ""); err != nil {
			t.Fatal(err)
		}
	}
	l.Enter(Entry{CaseID: "e"})
	wantAll(t, l, "e d b a") // c was resolved first
	l.Enter(Entry{CaseID: "f"})
	wantAll(t, l, "f e d a")
	if open, lost := l.Count(); open != 4 || lost != 0 {
		t.Errorf("%d open, %d lost", open, lost)
	}
	l.Enter(Entry{CaseID: "g"})
	wantAll(t, l, "g f e d") // none is resolved: the oldest, and that is a loss
	if open, lost := l.Count(); open != 4 || lost != 1 {
		t.Errorf("%d open, %d lost", open, lost)
	}
	if _, err := l.Get("a"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := l.Resolve("a", Executed, ""); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestEnterTwiceIsOneCase(t *testing.T) {
	l := clocked(4)
	l.Enter(Entry{CaseID: "a", Operation: "pay", Key: "k", Attempts: 2, Cause: "reset"})
	first, err := l.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Resolve("a", NotExecuted, "asked the bank"); err != nil {
		t.Fatal(err)
	}
	l.Enter(Entry{CaseID: "a", Upstream: "app", Cause: "cut off", Decision: decision.Decision{Rule: 4}})
	got, err := l.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	want := Case{
		Entry:  Entry{CaseID: "a", Operation: "pay", Key: "k", Attempts: 2, Upstream: "app", Cause: "cut off", Decision: decision.Decision{Rule: 4}},
		Number: 1, Time: first.Time, State: NotExecuted, Note: "asked the bank", Resolved: got.Resolved,
	}
	if !reflect.DeepEqual(*got, want) || !got.Resolved.After(got.Time) {
		t.Errorf("%+v, want %+v", *got, want)
	}
	if _, err := l.Resolve("a", Executed, "the bank was wrong"); err != nil {
		t.Fatal(err)
	}
	if got, _ := l.Get("a"); got.State != Executed || got.Note != "the bank was wrong" {
		t.Errorf("%+v", got)
	}
	wantAll(t, l, "a")
}

func TestFilterAndPages(t *testing.T) {
	l := clocked(100)
	for i := range 10 {
		l.Enter(Entry{CaseID: fmt.Sprint(i), Upstream: []string{"x", "y"}[i%2], Operation: []string{"o", "p"}[i/5]})
	}
	if _, err := l.Resolve("4", GivenUp, ""); err != nil {
		t.Fatal(err)
	}
	six, _ := l.Get("6")
	for _, c := range []struct {
		filter Filter
		want   string
	}{
		{Filter{Upstream: "x"}, "8 6 4 2 0"},
		{Filter{Operation: "o", State: Open}, "3 2 1 0"},
		{Filter{State: GivenUp}, "4"},
		{Filter{Since: six.Time}, "9 8 7 6"},
		{Filter{Until: six.Time, Upstream: "y"}, "5 3 1"},
		{Filter{Upstream: "z"}, ""},
	} {
		if got, _ := l.List(c.filter, 0, 100); ids(got) != c.want {
			t.Errorf("%+v: %q, want %q", c.filter, ids(got), c.want)
		}
	}
	var pages []string
	for before, more := uint64(0), true; more; {
		var page []*Case
		page, more = l.List(Filter{}, before, 4)
		pages = append(pages, ids(page))
		before = page[len(page)-1].Number
		l.Enter(Entry{CaseID: "new " + fmt.Sprint(len(pages))}) // disturbs no page
	}
	if want := []string{"9 8 7 6", "5 4 3 2", "1 0"}; !slices.Equal(pages, want) {
		t.Errorf("%q, want %q", pages, want)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1000, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		var missed uint64
		slow := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- l.Watch(ctx, Filter{Upstream: "x"}, func(c *Case, m uint64) error {
				<-slow
				seen, missed = append(seen, c.CaseID), m
				return nil
			})
		}()
		synctest.Wait()
		l.Enter(Entry{CaseID: "other", Upstream: "y"})
		for i := range watchBuffer + 11 { // one is in each's hands, watchBuffer wait, ten are missed
			l.Enter(Entry{CaseID: fmt.Sprint(i), Upstream: "x"})
			synctest.Wait()
		}
		close(slow)
		synctest.Wait()
		if _, err := l.Resolve("0", Executed, ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(seen) != watchBuffer+2 || seen[0] != "0" || seen[len(seen)-1] != "0" || missed != 10 {
			t.Errorf("%d seen, the last %q, %d missed", len(seen), seen[len(seen)-1], missed)
		}
		l.Enter(Entry{CaseID: "after", Upstream: "x"})
		if len(l.watchers) != 0 {
			t.Error("the watcher is still there")
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	l := New(50, nil)
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for n := range 200 {
				id := fmt.Sprint(i, n)
				l.Enter(Entry{CaseID: id, Path: strings.Repeat("p", 2000)})
				l.List(Filter{}, 0, 10)
				_, _ = l.Resolve(id, Executed, "")
			}
		})
	}
	work.Wait()
	if cases, _ := l.List(Filter{}, 0, 1000); len(cases) != 50 || len(cases[0].Path) != maxPath {
		t.Errorf("%d cases", len(cases))
	}
}

func BenchmarkEnter(b *testing.B) {
	l := New(0, nil)
	entries := make([]Entry, 2*DefaultSize)
	for i := range entries {
		entries[i] = Entry{CaseID: fmt.Sprint(i), Upstream: "app", Path: "/pay"}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Enter(entries[i%len(entries)])
	}
}
