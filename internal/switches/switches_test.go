package switches

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/verdictproxy/verdict/pkg/decision"
)

func TestSwitches(t *testing.T) {
	var s Switches
	want := func(step string, a, b decision.RuntimeState) {
		t.Helper()
		if s.Runtime("a") != a || s.Runtime("b") != b {
			t.Errorf("%s: a %v, b %v, want %v, %v", step, s.Runtime("a"), s.Runtime("b"), a, b)
		}
	}
	const serving, draining = decision.RuntimeServing, decision.RuntimeDraining
	want("at first", serving, serving)
	if err := errors.Join(s.Drain("a"), s.Drain("a")); err != nil {
		t.Fatal(err)
	}
	want("a drained", draining, serving)
	s.SetKill(true)
	want("killed", draining, draining)
	s.SetKill(false)
	want("back", draining, serving)
	s.Undrain("b")
	s.Undrain("a")
	want("undrained", serving, serving)
}

func TestDrainIsBounded(t *testing.T) {
	var s Switches
	for i := range MaxDrained {
		if err := s.Drain(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Drain("one more"); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if err := s.Drain("7"); err != nil {
		t.Error("drained already:", err)
	}
	if d := s.Drained(); len(d) != MaxDrained || !slices.IsSorted(d) || s.Runtime("one more") != decision.RuntimeServing {
		t.Errorf("%d drained", len(d))
	}
}
