package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/verdictproxy/verdict/test/stack"
)

// TestEvidenceTable plays every way in which an attempt can end, for each class of operation, and
// compares what Envoy said of the attempts, the report, and what the upstream has seen.
// `go test ./test/integration -run EvidenceTable -rewrite` writes the new answers; the diff is the review.
func TestEvidenceTable(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "attempts.log")
	s := start(t, stack.Options{Config: tableConfig, Patches: tablePatches(t, log), EnvoyArgs: flushed})
	if a := s.Do(stack.Request{Host: "limited.example"}); a.Status != 200 {
		t.Fatalf("the one request that the rate limit lets pass: %d", a.Status)
	}
	table := &evidenceTable{s: s, log: log}
	files, err := filepath.Glob("testdata/evidence/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			datadriven.RunTest(t, file, table.run)
		})
	}
}

type evidenceTable struct {
	s   *stack.Stack
	log string
}

// classes are the requests of each row.
var classes = []struct {
	name    string
	request stack.Request
}{
	{"GET", stack.Request{Target: "/plain"}},
	{"PUT", stack.Request{Method: "PUT", Target: "/plain", Body: "pay"}},
	{"POST+key", stack.Request{Method: "POST", Target: "/keyed", Body: "pay", Header: []string{"idempotency-key: k1"}}},
	{"POST", stack.Request{Method: "POST", Target: "/plain", Body: "pay"}},
}

// run plays a row: the input is the script of faults. Arguments: host=NAME; busy: another request
// holds the cluster's only connection meanwhile; before=FAULT: a request that is sent first; together:
// the classes at once, for rows that wait.
func (e *evidenceTable) run(t *testing.T, d *datadriven.TestData) string {
	host := "app"
	d.MaybeScanArgs(t, "host", &host)
	host += ".example"
	if d.HasArg("busy") {
		defer e.hold(t, host)()
	}
	rows := make([]string, len(classes))
	ids := make([]string, len(classes))
	var all sync.WaitGroup
	for i, class := range classes {
		if d.HasArg("before") {
			var before string
			d.ScanArgs(t, "before", &before)
			e.s.Do(stack.Request{Host: host, Fault: before})
		}
		r := class.request
		r.Host, r.Fault, r.ID = host, d.Input, e.s.NewID()
		ids[i] = r.ID
		all.Go(func() {
			a, err := e.s.Try(context.Background(), r)
			if err != nil {
				t.Errorf("%s: %v", d.Pos, err)
			}
			rows[i] = fmt.Sprintf("%-8s %s\n", class.name, e.row(t, r, a))
		})
		if !d.HasArg("together") {
			all.Wait()
		}
	}
	all.Wait()
	return strings.Join(rows, "") + e.said(t, ids)
}

// hold keeps the host's only connection busy until the function that it returns is called.
func (e *evidenceTable) hold(t *testing.T, host string) (release func()) {
	ctx, leave := context.WithCancel(context.Background())
	id := e.s.NewID()
	var gone sync.WaitGroup
	gone.Go(func() {
		_, _ = e.s.Try(ctx, stack.Request{Host: host, Target: "/hold", ID: id, Fault: "stuck", Timeout: time.Minute})
	})
	release = func() { leave(); gone.Wait() }
	if _, err := e.s.Upstream.WaitHits(t.Context(), id, 1); err != nil {
		release()
		t.Fatal(err)
	}
	return release
}

// row is an answer in words, after the checks that hold for every answer.
func (e *evidenceTable) row(t *testing.T, r stack.Request, a stack.Answer) string {
	wantNothingInternal(t, a)
	words := []string{strconv.Itoa(a.Status)}
	report := a.Report()
	if report.Verdict == "" {
		words = append(words, "unlabelled")
	} else {
		words = append(words, fmt.Sprintf("%s(%s) %s %s attempts=%s", report.Verdict, report.Reason, report.Evidence, report.Execution, report.Attempts))
	}
	if report.Verdict != "" && report.RequestID == "" {
		t.Errorf("%s %s: no x-request-id", r.Method, r.Fault)
	}
	hits, effects := len(e.s.Upstream.Hits(a.ID)), e.s.Upstream.Effects(a.ID)
	words = append(words, fmt.Sprintf("hits=%d effects=%d", hits, effects))
	if report.AmbiguityID != "" {
		words = append(words, "uncertain")
	}
	if a.Header.Get("Content-Type") == "application/problem+json" {
		words = append(words, "problem")
		var body struct {
			CaseID string `json:"case_id"`
		}
		if err := json.Unmarshal([]byte(a.Body), &body); err != nil || body.CaseID == "" || body.CaseID != report.AmbiguityID {
			t.Errorf("%s %s: case %q, ambiguity id %q: %v", r.Method, r.Fault, body.CaseID, report.AmbiguityID, err)
		}
	}
	if report.Evidence == "NOT_SENT" && report.Execution == "NOT_EXECUTED" && effects > 0 {
		t.Errorf("%s %s: reported as NOT_EXECUTED, and executed %d times", r.Method, r.Fault, effects)
	}
	return strings.Join(words, " ")
}

// said is what Envoy said of the attempts of these requests, each distinct line once.
func (e *evidenceTable) said(t *testing.T, ids []string) string {
	want := 0
	for _, id := range ids {
		want += max(1, len(e.s.Upstream.Hits(id)))
	}
	var lines []string
	waitFor(t, "Envoy's log of the attempts", func() bool {
		log, err := os.ReadFile(e.log)
		if err != nil {
			t.Fatal(err)
		}
		lines = nil
		for _, id := range ids {
			lines = append(lines, attemptsOf(string(log), id)...)
		}
		return len(lines) >= want
	})
	var distinct []string
	for _, line := range lines {
		if !slices.Contains(distinct, line) {
			distinct = append(distinct, line)
		}
	}
	return "envoy: " + strings.Join(distinct, "\nenvoy: ") + "\n"
}

// waitFor polls until it holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}
