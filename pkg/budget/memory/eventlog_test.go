package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// netGrants counts the grants of an event log that were not returned.
func netGrants(t *testing.T, log string) (n int) {
	t.Helper()
	for line := range strings.Lines(log) {
		var e budget.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case budget.KindGrant:
			n++
		case budget.KindReturn:
			n--
		}
	}
	return n
}

func TestEvents(t *testing.T) {
	var log bytes.Buffer
	now := 7 * time.Second
	settings := func(u string) budget.Settings {
		if u == "free" {
			return budget.Unlimited
		}
		return budget.Settings{Ratio: 1000, Reserve: 1, Interval: time.Second}
	}
	b := New(settings, Options{MaxUpstreams: 2, Clock: func() int64 { return int64(now) }, Log: budget.NewEventLog(&log, "p", nil)})
	a := b.Account("a")
	a.Deposit(1)
	a.Deposit(0)
	grants := drain(a) // one earned, one of the reserve, one refused
	now -= time.Second // a clock that steps back is not to be seen
	for _, g := range append(grants, grants...) {
		a.Return(g)
	}
	b.Account("free").TryWithdraw(t.Context())
	shared := b.Account("c")
	shared.Deposit(2)
	g, _ := shared.TryWithdraw(t.Context())
	shared.Return(g)
	now += 40 * time.Second
	b.Account("d") // evicts a
	a.TryWithdraw(t.Context())

	want := `{"mono_ns":7000000000,"process":"p","account":"a","event":"deposit","firsts":1,"milli":1000}
{"mono_ns":7000000000,"process":"p","account":"a","event":"grant","milli":1000,"source":"earned","grant":"2.1"}
{"mono_ns":7000000000,"process":"p","account":"a","event":"grant","milli":1000,"source":"reserve","grant":"2.2"}
{"mono_ns":7000000000,"process":"p","account":"a","event":"return","milli":1000,"source":"earned","grant":"2.1"}
{"mono_ns":7000000000,"process":"p","account":"a","event":"return","milli":1000,"source":"reserve","grant":"2.2"}
{"mono_ns":7000000000,"process":"p","account":"free","event":"grant","milli":1000,"source":"unlimited","grant":"3.1"}
{"mono_ns":7000000000,"process":"p","account":"","event":"deposit","firsts":2,"milli":2000}
{"mono_ns":7000000000,"process":"p","account":"","event":"grant","milli":1000,"source":"earned","grant":"1.1"}
{"mono_ns":7000000000,"process":"p","account":"","event":"return","milli":1000,"source":"earned","grant":"1.1"}
{"mono_ns":46000000000,"process":"p","account":"a","event":"grant","milli":1000,"source":"reserve","grant":"5.1"}
`
	if got := log.String(); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// No caller learns of a grant before it is written.
func TestWrittenBeforeItTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan struct{})
		w := writerFunc(func(p []byte) (int, error) {
			<-written
			return len(p), nil
		})
		a := New(nil, Options{Log: budget.NewEventLog(w, "p", nil)}).Account("a")
		granted := false
		go func() { _, granted = a.TryWithdraw(t.Context()) }()
		synctest.Wait()
		if granted {
			t.Fatal("granted before the event was written")
		}
		close(written)
		synctest.Wait()
		if !granted {
			t.Fatal("not granted after the event was written")
		}
	})
}

// What cannot be written is not granted, to nobody, then and later.
func TestNothingIsGrantedWithoutTheLog(t *testing.T) {
	for _, failing := range []string{"deposit", "grant", "return"} {
		t.Run(failing, func(t *testing.T) {
			w := writerFunc(func(p []byte) (int, error) {
				if strings.Contains(string(p), `"event":"`+failing+`"`) {
					return 0, errors.New("no space left")
				}
				return len(p), nil
			})
			failed := 0
			b := New(nil, Options{Log: budget.NewEventLog(w, "p", func(error) { failed++ })})
			a := b.Account("a")
			first, ok := a.TryWithdraw(t.Context())
			if want := failing != "grant"; ok != want || (first.ID != 0) != want {
				t.Fatalf("granted: %v, %+v", ok, first)
			}
			a.Return(first)
			a.Deposit(100)
			for _, name := range []string{"a", "b"} {
				if g, ok := b.Account(name).TryWithdraw(t.Context()); ok || g != (budget.Grant{}) {
					t.Errorf("%s: granted %+v after a failed write", name, g)
				}
			}
			if failed != 1 {
				t.Errorf("told %d times, want once", failed)
			}
		})
	}
}
