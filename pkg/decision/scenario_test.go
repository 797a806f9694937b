package decision_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/verdictproxy/verdict/pkg/decision"
	"github.com/verdictproxy/verdict/pkg/decision/decisiontest"
)

// TestScenarios reads the cases in testdata, a file per rule. After a wanted change
// `go test ./pkg/decision -run Scenarios -rewrite` writes the new answers; the diff is the review.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "decide":
					return decide(d)
				case "retry-after":
					return retryAfter(d)
				}
				d.Fatalf(t, "unknown command %s", d.Cmd)
				return ""
			})
		})
	}
}

func decide(d *datadriven.TestData) string {
	c, err := decisiontest.ParseCase(d.Input)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	answer, ladder := decision.Explain(c.Facts, c.Policy, c.R)
	return decisiontest.Format(answer, ladder)
}

// retryAfter reads a response's header lines; the proxy's clock shows Sun, 01 Mar 2026 12:00:00 GMT.
func retryAfter(d *datadriven.TestData) string {
	var lines []string
	var date string
	for _, line := range strings.Split(d.Input, "\n") {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "Retry-After":
			lines = append(lines, value)
		case "Date":
			date = value
		default:
			return "error: no such header: " + name + "\n"
		}
	}
	return fmt.Sprintln(decision.ParseRetryAfter(lines, date, time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)))
}

// TestScenarioPerRule: each rule has its file, and is the one that decides in one of its cases.
func TestScenarioPerRule(t *testing.T) {
	_, ladder := decision.Explain(decision.Facts{}, decision.Policy{}, 0)
	for _, rule := range ladder {
		text, err := os.ReadFile(filepath.Join("testdata", rule.Name+".txt"))
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(text), fmt.Sprintf("by rule %d", rule.Number)) {
			t.Errorf("rule %d, %s, decides none of its cases", rule.Number, rule.Name)
		}
	}
}
