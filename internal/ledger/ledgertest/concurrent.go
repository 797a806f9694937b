package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
)

func concurrentUse(t *testing.T, open Open) {
	l, settle := open(t, 50, nil)
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for n := range 50 {
				id := fmt.Sprint(i, "-", n)
				l.Enter(ledger.Entry{CaseID: id, Path: strings.Repeat("p", 2000)})
				if _, err := l.List(t.Context(), ledger.Filter{}, 0, 10); err != nil {
					t.Error(err)
				}
				if _, err := l.Resolve(t.Context(), id, executed, ""); err != nil && !errors.Is(err, ledger.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	settle()
	page, err := l.List(t.Context(), ledger.Filter{}, 0, 1000)
	if err != nil || len(page.Cases) != 50 {
		t.Errorf("%d cases, %v", len(page.Cases), err)
	}
}

func twoResolve(t *testing.T, open Open) {
	l, settle := open(t, 50, nil)
	for n := range 20 {
		id := fmt.Sprint(n)
		l.Enter(ledger.Entry{CaseID: id})
		settle()
		var work sync.WaitGroup
		var answers [2]*ledger.Case
		for i, state := range []retryv1.CaseState{executed, notExecuted} {
			work.Go(func() {
				c, err := l.Resolve(t.Context(), id, state, state.String())
				if err != nil || c.GetState() != state || c.GetNote() != state.String() {
					t.Errorf("%v, %v", c, err)
				}
				answers[i] = c
			})
		}
		work.Wait()
		c := get(t, l, id)
		if cmp.Diff(c, answers[0], protocmp.Transform()) != "" && cmp.Diff(c, answers[1], protocmp.Transform()) != "" {
			t.Errorf("%v is neither %v nor %v", c, answers[0], answers[1])
		}
	}
	wantCount(t, l, 0, 0)
}
