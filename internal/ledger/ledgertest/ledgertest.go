// Package ledgertest is the contract of ledger.Ledger as tests, which every one that keeps it runs.
package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// Open makes an empty ledger of a size, with a clock of its own. settle returns when what was entered is
// where it is kept. The ledger is closed when the test ends.
type Open func(t *testing.T, size int, now func() time.Time) (l ledger.Ledger, settle func())

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, Open){
		"resolved make room first":      resolvedMakeRoomFirst,
		"entered twice is one case":     enteredTwice,
		"what a case says":              caseSays,
		"filter and pages":              filterAndPages,
		"watch":                         watch,
		"a watcher that is too slow":    slowWatcher,
		"concurrent use":                concurrentUse,
		"two resolve at once":           twoResolve,
		"no such case, whatever its id": noSuchCase,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// Seconds is a clock that is a second later at each look.
func Seconds() func() time.Time {
	var mu sync.Mutex
	at := time.Unix(1_700_000_000, 0)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at = at.Add(time.Second)
		return at
	}
}

// IDs are the cases by name.
func IDs(cases []*ledger.Case) string {
	names := make([]string, 0, len(cases))
	for _, c := range cases {
		names = append(names, c.GetCaseId())
	}
	return strings.Join(names, " ")
}

// Eventually waits for what comes by itself.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func wantAll(t *testing.T, l ledger.Ledger, want string) {
	t.Helper()
	page, err := l.List(t.Context(), ledger.Filter{}, 0, 1000)
	if got := IDs(page.Cases); got != want || page.Next != 0 || err != nil {
		t.Errorf("%q, next %d, %v, want %q", got, page.Next, err, want)
	}
}

func wantCount(t *testing.T, l ledger.Ledger, open int, lost uint64) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%d open, %d lost", open, lost), func() bool {
		o, n := l.Count()
		return o == open && n == lost
	})
	if page, err := l.List(t.Context(), ledger.Filter{}, 0, 1); err != nil || page.Lost != lost {
		t.Errorf("a list says %d lost, %v, want %d", page.Lost, err, lost)
	}
}

func resolve(t *testing.T, l ledger.Ledger, id string, state retryv1.CaseState, note string) *ledger.Case {
	t.Helper()
	c, err := l.Resolve(t.Context(), id, state, note)
	if err != nil || c.GetState() != state || c.GetNote() != note || !c.GetResolved().IsValid() {
		t.Fatalf("%s: %v, %v", id, c, err)
	}
	return c
}

func get(t *testing.T, l ledger.Ledger, id string) *ledger.Case {
	t.Helper()
	c, err := l.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return c
}

const (
	executed    = retryv1.CaseState_CASE_STATE_EXECUTED
	notExecuted = retryv1.CaseState_CASE_STATE_NOT_EXECUTED
	givenUp     = retryv1.CaseState_CASE_STATE_GIVEN_UP
)

func resolvedMakeRoomFirst(t *testing.T, open Open) {
	l, settle := open(t, 4, Seconds())
	enter := func(id string) {
		l.Enter(ledger.Entry{CaseID: id})
		settle()
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		enter(id)
	}
	resolve(t, l, "c", executed, "")
	resolve(t, l, "b", notExecuted, "")
	resolve(t, l, "c", givenUp, "") // b is now the one that was resolved first
	enter("e")
	wantAll(t, l, "e d c a")
	wantCount(t, l, 3, 0)
	enter("f")
	wantAll(t, l, "f e d a")
	wantCount(t, l, 4, 0)
	enter("g")
	wantAll(t, l, "g f e d") // none is resolved: the oldest, and that is a loss
	wantCount(t, l, 4, 1)
	if _, err := l.Get(t.Context(), "a"); !errors.Is(err, ledger.ErrNotFound) {
		t.Error(err)
	}
	if _, err := l.Resolve(t.Context(), "a", executed, ""); !errors.Is(err, ledger.ErrNotFound) {
		t.Error(err)
	}
	enter("a") // it may come again
	wantAll(t, l, "a g f e")
	wantCount(t, l, 4, 2)
}

func enteredTwice(t *testing.T, open Open) {
	l, settle := open(t, 4, Seconds())
	l.Enter(ledger.Entry{CaseID: "a", Operation: "pay", Key: "k", Attempts: 2, Cause: "reset", Decision: decision.Decision{
		Verdict: decision.Ambiguous, Reason: decision.ReasonSentNoResponse, Evidence: decision.SentNoResponse, Uncertain: true,
	}})
	settle()
	l.Enter(ledger.Entry{CaseID: "b"})
	settle()
	first := get(t, l, "a")
	resolved := resolve(t, l, "a", notExecuted, "asked the bank")
	l.Enter(ledger.Entry{CaseID: "a", Upstream: "app", Attempts: 1, Cause: "cut off", Decision: decision.Decision{Verdict: decision.Denied, Rule: 4}})
	settle()
	want := &ledger.Case{
		CaseId: "a", Operation: "pay", IdempotencyKey: "k", Attempts: 2, Upstream: "app", Cause: "cut off", Verdict: retryv1.Verdict_VERDICT_DENIED,
		Time: first.GetTime(), State: notExecuted, Note: "asked the bank", Resolved: resolved.GetResolved(),
	}
	if diff := cmp.Diff(want, get(t, l, "a"), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if !resolved.GetResolved().AsTime().After(first.GetTime().AsTime()) {
		t.Errorf("entered %v, resolved %v", first.GetTime(), resolved.GetResolved())
	}
	wantCount(t, l, 1, 0)
	resolve(t, l, "a", executed, "the bank was wrong")
	if c := get(t, l, "a"); c.GetState() != executed || c.GetNote() != "the bank was wrong" {
		t.Error(c)
	}
	wantAll(t, l, "b a")
}

func caseSays(t *testing.T, open Open) {
	at := time.Unix(1_700_000_000, 123456789)
	l, settle := open(t, 4, func() time.Time { return at })
	long := strings.Repeat("é", 1000) // the middle of a letter is cut
	l.Enter(ledger.Entry{
		CaseID: "c:{}*\n é", RequestID: "r\xff\x00", Upstream: "app", Operation: "pay", Method: "POST", Path: "/" + long,
		Key: "k", Attempts: -1, Cause: strings.Repeat("x", 60_000), Decision: decision.Decision{
			Verdict: decision.Ambiguous, Reason: decision.ReasonSentNoResponse, Evidence: decision.SentNoResponse, Execution: decision.ExecutionUnknown,
		},
	})
	settle()
	want := &ledger.Case{
		CaseId: "c:{}*\n é", Time: timestamppb.New(at), State: retryv1.CaseState_CASE_STATE_OPEN, RequestId: "r\uFFFD\x00",
		Upstream: "app", Operation: "pay", Method: "POST", Path: "/" + long[:1022] + "\uFFFD", IdempotencyKey: "k", Cause: strings.Repeat("x", 60_000),
		Evidence: retryv1.Evidence_EVIDENCE_SENT_NO_RESPONSE, Execution: retryv1.Execution(decision.ExecutionUnknown),
		Verdict: retryv1.Verdict_VERDICT_AMBIGUOUS, Reason: retryv1.Reason_REASON_SENT_NO_RESPONSE,
	}
	if diff := cmp.Diff(want, get(t, l, want.CaseId), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	page, err := l.List(t.Context(), ledger.Filter{}, 0, 10)
	if err != nil || len(page.Cases) != 1 {
		t.Fatal(page, err)
	}
	if diff := cmp.Diff(want, page.Cases[0], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func filterAndPages(t *testing.T, open Open) {
	l, settle := open(t, 1000, Seconds())
	for i := range 10 {
		l.Enter(ledger.Entry{CaseID: fmt.Sprint(i), Upstream: []string{"x", "y"}[i%2], Operation: []string{"o", "p"}[i/5]})
	}
	settle()
	resolve(t, l, "4", givenUp, "")
	six := get(t, l, "6").GetTime().AsTime()
	for _, c := range []struct {
		filter ledger.Filter
		want   string
	}{
		{ledger.Filter{Upstream: "x"}, "8 6 4 2 0"},
		{ledger.Filter{Operation: "o", State: retryv1.CaseState_CASE_STATE_OPEN}, "3 2 1 0"},
		{ledger.Filter{State: givenUp}, "4"},
		{ledger.Filter{Since: six}, "9 8 7 6"},
		{ledger.Filter{Until: six, Upstream: "y"}, "5 3 1"},
		{ledger.Filter{Upstream: "z"}, ""},
	} {
		if got, err := l.List(t.Context(), c.filter, 0, 100); IDs(got.Cases) != c.want || got.Next != 0 || err != nil {
			t.Errorf("%+v: %q, next %d, %v, want %q", c.filter, IDs(got.Cases), got.Next, err, c.want)
		}
	}
	var pages []string
	for before := uint64(0); ; {
		page, err := l.List(t.Context(), ledger.Filter{}, before, 4)
		if err != nil || len(pages) > 10 {
			t.Fatal(pages, err)
		}
		pages = append(pages, IDs(page.Cases))
		if before = page.Next; before == 0 {
			break
		}
		l.Enter(ledger.Entry{CaseID: "new " + fmt.Sprint(len(pages))}) // disturbs no page
		settle()
	}
	if want := []string{"9 8 7 6", "5 4 3 2", "1 0"}; !slices.Equal(pages, want) {
		t.Errorf("%q, want %q", pages, want)
	}
	for i := range 300 {
		l.Enter(ledger.Entry{CaseID: fmt.Sprint("many ", i), Upstream: "many"})
	}
	settle()
	if page, err := l.List(t.Context(), ledger.Filter{Upstream: "x"}, 0, 5); IDs(page.Cases) != "8 6 4 2 0" || page.Next != 0 || err != nil {
		t.Errorf("behind many: %q, next %d, %v", IDs(page.Cases), page.Next, err)
	}
	if page, err := l.List(t.Context(), ledger.Filter{}, 0, 0); len(page.Cases) != 0 || err != nil {
		t.Errorf("a page of nothing: %q, %v", IDs(page.Cases), err)
	}
}

func noSuchCase(t *testing.T, open Open) {
	l, _ := open(t, 50, nil)
	for _, id := range []string{"", "nothing", "\xff", "a\r\nb", strings.Repeat("x", 10_000)} {
		if _, err := l.Get(t.Context(), id); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%.20q: %v", id, err)
		}
		if _, err := l.Resolve(t.Context(), id, executed, ""); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%.20q: %v", id, err)
		}
	}
}
