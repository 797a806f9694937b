package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/memory"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// Whatever is done, and by whichever of two processes, the ledger on a server is the one in memory.
func TestSameAsMemory(t *testing.T) {
	server := redistest.Start(t, redistest.Binary(t))
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 5))
		clock := time.Unix(1_700_000_000, 0)
		now := func() time.Time { return clock }
		size, prefix := 1+r.IntN(12), freshPrefix()
		var pair [2]*Ledger
		for i := range pair {
			pair[i] = mustNew(t, Options{Server: at(server.Address), Prefix: prefix, Size: size, Now: now})
		}
		model := memory.New(size, now)
		name := func(n int) string { return fmt.Sprint(string(rune('a' + r.IntN(n)))) }
		for step := range 150 {
			clock = clock.Add(time.Second)
			l := pair[r.IntN(2)]
			id := name(20)
			if r.IntN(3) > 0 {
				e := ledger.Entry{
					CaseID: id, Upstream: name(3), Operation: name(2), Attempts: r.IntN(4), Key: []string{"", "k"}[r.IntN(2)],
					Decision: decision.Decision{Verdict: decision.Ambiguous, Evidence: decision.Evidence(r.IntN(5))},
				}
				model.Enter(e)
				l.Enter(e)
				settle(t, l)
			} else {
				state := retryv1.CaseState(2 + r.IntN(3))
				want, wantErr := model.Resolve(t.Context(), id, state, name(3))
				got, err := l.Resolve(t.Context(), id, state, want.GetNote())
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || !errors.Is(err, wantErr) {
					t.Fatalf("seed %d, step %d: resolve %s: %v: %s", seed, step, id, err, diff)
				}
			}
			f := ledger.Filter{State: retryv1.CaseState(r.IntN(5)), Upstream: []string{"", "a"}[r.IntN(2)]}
			limit := r.IntN(4)
			var before, beforeModel uint64
			for {
				want, _ := model.List(t.Context(), f, beforeModel, limit)
				got, err := pair[r.IntN(2)].List(t.Context(), f, before, limit)
				if diff := cmp.Diff(want.Cases, got.Cases, protocmp.Transform()); diff != "" || err != nil || (got.Next == 0) != (want.Next == 0) || got.Lost != want.Lost {
					t.Fatalf("seed %d, step %d: list %+v: %v, next %d and %d, lost %d and %d: %s", seed, step, f, err, got.Next, want.Next, got.Lost, want.Lost, diff)
				}
				if before, beforeModel = got.Next, want.Next; before == 0 || limit == 0 {
					break
				}
			}
		}
		last := ledger.Entry{CaseID: "z", Cause: "so that the counts are fresh"}
		model.Enter(last)
		pair[0].Enter(last)
		settle(t, pair[0])
		open, lost := model.Count()
		if o, n := pair[0].Count(); o != open || n != lost {
			t.Errorf("seed %d: %d open, %d lost, want %d and %d", seed, o, n, open, lost)
		}
	}
}
