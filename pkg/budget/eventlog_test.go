package budget

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// writes counts the calls, and fails from the given one on, after half of the bytes.
type writes struct {
	bytes.Buffer
	calls, failFrom int
}

var errFull = errors.New("no space left")

func (w *writes) Write(p []byte) (int, error) {
	if w.calls++; w.failFrom > 0 && w.calls >= w.failFrom {
		n, _ := w.Buffer.Write(p[:len(p)/2])
		return n, errFull
	}
	return w.Buffer.Write(p)
}

func TestEventLogFormat(t *testing.T) {
	var w writes
	l := NewEventLog(&w, "p1", nil)
	for _, e := range []Event{
		{Mono: 1, Account: "a", Kind: KindDeposit, Firsts: 3, Milli: 600},
		{Mono: 2, Account: "a \"\n", Kind: KindGrant, Milli: 1000, Source: SourceReserve, Grant: "1.1"},
		{Mono: 3, Kind: KindReturn, Milli: 1000, Source: SourceEarned, Grant: "1.1", RedisLow: 4, RedisHigh: 5},
	} {
		if err := l.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"mono_ns":1,"process":"p1","account":"a","event":"deposit","firsts":3,"milli":600}
{"mono_ns":2,"process":"p1","account":"a \"\n","event":"grant","milli":1000,"source":"reserve","grant":"1.1"}
{"mono_ns":3,"process":"p1","account":"","event":"return","milli":1000,"source":"earned","grant":"1.1","redis_low_us":4,"redis_high_us":5}
`
	if got := w.String(); got != want || w.calls != 3 {
		t.Fatalf("in %d writes:\n%s\nwant, in 3:\n%s", w.calls, got, want)
	}
	var back Event
	if err := json.Unmarshal([]byte(strings.Split(want, "\n")[1]), &back); err != nil || back.Source != SourceReserve {
		t.Fatalf("read back %+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"source":"heaven"}`), &back); err == nil {
		t.Fatal("read an unknown source")
	}
}

func TestEventLogEndsAtTheFirstFailure(t *testing.T) {
	w := writes{failFrom: 2}
	var told []error
	l := NewEventLog(&w, "p1", func(err error) { told = append(told, err) })
	if err := l.Write(Event{Kind: KindDeposit}); err != nil || l.Err() != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := l.Write(Event{Kind: KindGrant}); !errors.Is(err, errFull) {
			t.Fatalf("got %v, want the writer's error", err)
		}
	}
	if w.calls != 2 || len(told) != 1 || !errors.Is(told[0], errFull) || !errors.Is(l.Err(), errFull) {
		t.Fatalf("%d writes, told %v, Err %v", w.calls, told, l.Err())
	}
}

func TestEventLogLinesDoNotMix(t *testing.T) {
	var w writes
	l := NewEventLog(&w, "p1", nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				_ = l.Write(Event{Account: fmt.Sprint(i), Kind: KindDeposit})
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(w.String()), "\n")
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Fatalf("not a line: %s", line)
		}
	}
	if len(lines) != 800 {
		t.Fatalf("%d lines, want 800", len(lines))
	}
}

func TestSourceNames(t *testing.T) {
	if got := Source(200).String(); got != "Source(200)" {
		t.Error(got)
	}
	for s := SourceUnknown; s <= SourceUnlimited; s++ {
		var back Source
		text, err := s.MarshalText()
		if err != nil || back.UnmarshalText(text) != nil || back != s {
			t.Errorf("%v became %v", s, back)
		}
	}
}
