package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/internal/ledger"
)

// What is said of a case while it is under way is not lost when it arrives.
func TestQueueKeepsWhatIsNew(t *testing.T) {
	q := newQueue(3)
	add := func(e ledger.Entry) bool { return q.add(e.Case(time.Unix(1, 0))) }
	add(ledger.Entry{CaseID: "a", Key: "k"})
	add(ledger.Entry{CaseID: "b"})
	taken, _ := q.take(10)
	add(ledger.Entry{CaseID: "a", Cause: "reset"})
	for _, c := range taken {
		q.done(c)
	}
	again, _ := q.take(10)
	if len(again) != 1 || again[0].GetIdempotencyKey() != "k" || again[0].GetCause() != "reset" {
		t.Errorf("waiting: %v", again)
	}
	q.failed(again)
	if again, _ := q.take(10); len(again) != 1 {
		t.Errorf("after a failure: %v", again)
	}
	if q.done(again[0]); q.get("a") != nil {
		t.Error("it still waits")
	}
}

// The oldest that is not under way makes room.
func TestQueueIsBounded(t *testing.T) {
	q := newQueue(3)
	lost := 0
	for i := range 5 {
		if i == 3 {
			q.take(2)
		}
		if q.add(ledger.Entry{CaseID: fmt.Sprint(i)}.Case(time.Unix(1, 0))) {
			lost++
		}
	}
	rest, untold := q.take(10)
	got := ""
	for _, c := range rest {
		got += c.GetCaseId()
	}
	if waiting, dropped, _ := q.count(); got != "014" || lost != 2 || untold != 2 || waiting != 3 || dropped != 2 {
		t.Errorf("%q wait, %d lost, %d untold, %d dropped", got, lost, untold, dropped)
	}
	if q.told(2); func() uint64 { _, _, n := q.count(); return n }() != 0 {
		t.Error("told, and still to be told")
	}
}
