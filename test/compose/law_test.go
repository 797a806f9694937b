package compose

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/budgettest"
)

// testPaymentLaw holds the event logs of both replicas, in all their lives, to the law: as one process, by
// the machine's clock.
func (p *project) testPaymentLaw(t *testing.T) {
	cfg, err := config.Load(filepath.Join(root, "compose/verdict/verdict.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	declared := func(account string) budget.Settings { return cfg.Upstream(account).Budget() }
	events := p.readEvents(t)
	lives, granted := map[string]int{}, map[budget.Source]int{}
	for _, e := range events {
		lives[e.Process]++
		if e.Kind == budget.KindGrant {
			granted[e.Source]++
		}
	}
	t.Logf("%d events of %d processes; grants by source: %v", len(events), len(lives), granted)
	if want := 2 + len(p.killed); len(lives) != want {
		t.Errorf("%d processes, want %d: two, and one more for each that was killed", len(lives), want)
	}
	if granted[budget.SourceEarned] < 20 || granted[budget.SourceReserve] < 20 {
		t.Error("so few grants prove nothing")
	}
	log := fleet(t, events)
	if err := budgettest.Check(bytes.NewReader(log), declared); err != nil {
		t.Error(err)
	}
	// The budget of flood was used to its limit: with a tenth less the log would break the law.
	less := func(account string) budget.Settings {
		s := declared(account)
		if account == "flood" {
			s.Reserve -= s.Reserve / 10
		}
		return s
	}
	var breach *budgettest.Breach
	if err := budgettest.Check(bytes.NewReader(log), less); !errors.As(err, &breach) || breach.Account != "flood" {
		t.Errorf("the law was never put to the test: with a smaller reserve the checker says %v", err)
	}
}

// readEvents reads the logs in the order of the machine's clock.
func (p *project) readEvents(t *testing.T) []budget.Event {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.events, "*.ndjson"))
	if err != nil || len(files) != 2 {
		t.Fatalf("event logs %q: %v", files, err)
	}
	var all []budget.Event
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				continue // being written
			}
			var e budget.Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("%s: %q: %v", file, line, err)
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(x, y budget.Event) int { return cmp.Compare(x.Mono, y.Mono) })
	return all
}

// fleet writes events as those of one process.
func fleet(t *testing.T, events []budget.Event) []byte {
	t.Helper()
	var log bytes.Buffer
	for _, e := range events {
		if e.Grant != "" {
			e.Grant = e.Process + "/" + e.Grant
		}
		e.Process = "fleet"
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		log.Write(append(line, '\n'))
	}
	return log.Bytes()
}
