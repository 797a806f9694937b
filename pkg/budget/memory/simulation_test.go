package memory

import (
	"testing"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/budgettest"
)

// The law holds, by the event log, through hundreds of random lives on a virtual clock.
func TestSimulation(t *testing.T) {
	var total budgettest.Stats
	for seed := range uint64(300) {
		stats, err := budgettest.Simulate(seed, func(w budgettest.World) budget.Budget {
			return New(w.Settings, Options{
				MaxUpstreams: w.MaxUpstreams, Clock: w.Clock, Log: budget.NewEventLog(w.Log, "p", nil),
			})
		})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		total.Add(stats)
	}
	t.Logf("%+v", total)
	for what, n := range map[string]int{
		"deposits": total.Deposits, "grants": total.Grants, "refusals": total.Refused, "returns": total.Returns,
		"second returns": total.SecondReturns, "foreign returns": total.ForeignReturns, "gaps": total.Gaps,
		"steps back": total.StepsBack,
	} {
		if n < 1000 {
			t.Errorf("only %d %s: the simulation does not simulate", n, what)
		}
	}
}
