package recent

import (
	"fmt"
	"sync"
	"testing"

	"github.com/verdictproxy/verdict/internal/ledger"
)

func TestFind(t *testing.T) {
	var d Decisions
	d.Add(ledger.Entry{RequestID: "r", CaseID: "c", Attempts: 1})
	d.Add(ledger.Entry{})
	d.Add(ledger.Entry{RequestID: "other", CaseID: "c", Attempts: 2})
	for id, want := range map[string]int{"r": 1, "c": 2, "other": 1, "": 0, "none": 0} {
		found := d.Find(id)
		if len(found) != want || want == 2 && (found[0].Attempts != 1 || found[1].Attempts != 2) {
			t.Errorf("%q: %d found, want %d", id, len(found), want)
		}
	}
}

func TestTheOldestAreForgotten(t *testing.T) {
	var d Decisions
	var adding sync.WaitGroup
	for g := range 4 {
		adding.Go(func() {
			for i := range Size / 4 {
				d.Add(ledger.Entry{RequestID: "first", CaseID: fmt.Sprint(g, " ", i)})
			}
		})
	}
	adding.Wait()
	if n := len(d.Find("first")); n != Size {
		t.Errorf("%d remembered, want %d", n, Size)
	}
	for range 10 {
		d.Add(ledger.Entry{RequestID: "later"})
	}
	if n, later := len(d.Find("first")), len(d.Find("later")); n != Size-10 || later != 10 {
		t.Errorf("%d and %d remembered", n, later)
	}
}

func BenchmarkAdd(b *testing.B) {
	d := new(Decisions)
	e := ledger.Entry{RequestID: "r", CaseID: "c", Path: "/pay"}
	b.ReportAllocs()
	for b.Loop() {
		d.Add(e)
	}
}
