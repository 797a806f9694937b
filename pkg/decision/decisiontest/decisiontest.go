// Package decisiontest writes cases for the rules as text: facts on a line, the decision and the
// ladder of rules below. pkg/decision/testdata holds such cases; whoever carries facts to the rules by
// another way, such as an API, replays the same files.
package decisiontest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// Case is what Decide is asked.
type Case struct {
	Facts  decision.Facts
	Policy decision.Policy
	R      float64
}

// Default returns the case of an empty line: the first attempt of a request with a replayable body,
// of which nothing was delivered, 5 s before its deadline, not in early data, with budget left, under
// the default policy, r = 0.5. Evidence and class are unknown.
func Default() Case {
	return Case{
		Facts: decision.Facts{
			Body:      decision.Replayable,
			EarlyData: decision.EarlyDataNotSent,
			Attempt:   1,
			Delivery:  decision.NotDelivered,
			Deadline:  decision.DeadlineKnown,
			Remaining: 5 * time.Second,
			Budget:    decision.BudgetAvailable,
		},
		Policy: decision.DefaultPolicy(),
		R:      0.5,
	}
}

// setters are the keys of a line. Enum values are written in the words of package decision, times as
// by time.ParseDuration, lists with commas.
var setters = map[string]func(c *Case, value string) error{
	"evidence":   func(c *Case, v string) error { return enum(&c.Facts.Evidence, v, decision.ParseEvidence) },
	"status":     func(c *Case, v string) error { return integer(&c.Facts.Status, v) },
	"permanent":  func(c *Case, v string) error { return enum(&c.Facts.Permanent, v, decision.ParsePermanent) },
	"class":      func(c *Case, v string) error { return enum(&c.Facts.Idempotency, v, decision.ParseIdempotency) },
	"body":       func(c *Case, v string) error { return enum(&c.Facts.Body, v, decision.ParseReplayability) },
	"early_data": func(c *Case, v string) error { return enum(&c.Facts.EarlyData, v, decision.ParseEarlyData) },
	"credential": func(c *Case, v string) error { return enum(&c.Facts.Credential, v, decision.ParseCredential) },
	"attempt":    func(c *Case, v string) error { return integer(&c.Facts.Attempt, v) },
	// earlier=EXECUTION,certainty
	"earlier": func(c *Case, v string) error {
		execution, certainty, _ := strings.Cut(v, ",")
		if err := enum(&c.Facts.Earlier.Execution, execution, decision.ParseExecution); err != nil {
			return err
		}
		return enum(&c.Facts.Earlier.Certainty, certainty, decision.ParseCertainty)
	},
	"previous_wait": func(c *Case, v string) error { return duration(&c.Facts.PreviousWait, v) },
	"delivery":      func(c *Case, v string) error { return enum(&c.Facts.Delivery, v, decision.ParseDelivery) },
	// deadline=none, deadline=unknown, or the time left
	"deadline": func(c *Case, v string) error {
		c.Facts.Remaining = 0
		switch v {
		case "none":
			c.Facts.Deadline = decision.DeadlineNone
		case "unknown":
			c.Facts.Deadline = decision.DeadlineUnknown
		default:
			c.Facts.Deadline = decision.DeadlineKnown
			return duration(&c.Facts.Remaining, v)
		}
		return nil
	},
	"max_wait":    func(c *Case, v string) error { return duration(&c.Facts.MaxWait, v) },
	"retry_after": func(c *Case, v string) error { return duration(&c.Facts.RetryAfter, v) },
	"budget":      func(c *Case, v string) error { return enum(&c.Facts.Budget, v, decision.ParseBudget) },
	"runtime":     func(c *Case, v string) error { return enum(&c.Facts.Runtime, v, decision.ParseRuntime) },

	"max_attempts":       func(c *Case, v string) error { return integer(&c.Policy.MaxAttempts, v) },
	"min_attempt_budget": func(c *Case, v string) error { return duration(&c.Policy.MinAttemptBudget, v) },
	"base":               func(c *Case, v string) error { return duration(&c.Policy.Backoff.Base, v) },
	"max_backoff":        func(c *Case, v string) error { return duration(&c.Policy.Backoff.Max, v) },
	"jitter":             func(c *Case, v string) error { return enum(&c.Policy.Backoff.Jitter, v, decision.ParseJitter) },
	"retry_after_cap":    func(c *Case, v string) error { return duration(&c.Policy.RetryAfterCap, v) },
	"transient":          func(c *Case, v string) error { return statuses(&c.Policy.Transient, v) },
	"distrusted":         func(c *Case, v string) error { return statuses(&c.Policy.Distrusted, v) },
	"replay_on_401":      func(c *Case, v string) error { return replayOn401(&c.Policy.ReplayOn401, v) },
	"r":                  func(c *Case, v string) (err error) { c.R, err = strconv.ParseFloat(v, 64); return err },
}

// ParseCase reads key=value pairs apart by blanks, over the values of Default. A key may occur once.
func ParseCase(line string) (Case, error) {
	c := Default()
	seen := map[string]bool{}
	for _, field := range strings.Fields(line) {
		key, value, _ := strings.Cut(field, "=")
		set := setters[key]
		if set == nil {
			return Case{}, fmt.Errorf("%s: no such key; there are %s", field, strings.Join(slices.Sorted(maps.Keys(setters)), ", "))
		}
		if seen[key] {
			return Case{}, fmt.Errorf("%s: %s occurs twice", field, key)
		}
		seen[key] = true
		if err := set(&c, value); err != nil {
			return Case{}, fmt.Errorf("%s: %w", field, err)
		}
	}
	return c, nil
}

// Format writes a decision on two lines, and the ladder of rules below them.
func Format(d decision.Decision, ladder []decision.RuleOutcome) string {
	var b strings.Builder
	b.WriteString(answer(d.Verdict, d.Reason))
	if d.Category != decision.PermanentNone {
		fmt.Fprintf(&b, ", %s", d.Category)
	}
	if d.Rule > 0 {
		fmt.Fprintf(&b, ", by rule %d", d.Rule)
	}
	if d.Verdict == decision.Retry {
		fmt.Fprintf(&b, ", wait %v", d.Wait)
	}
	certainty := "certain"
	if d.Uncertain {
		certainty = "uncertain"
	}
	fmt.Fprintf(&b, "\n%s, %s, %s\n", d.Evidence, d.Execution, certainty)
	for _, o := range ladder {
		says := "-"
		if o.Verdict != decision.VerdictNone {
			says = answer(o.Verdict, o.Reason)
		}
		fmt.Fprintf(&b, "  %d %-26s %s\n", o.Number, o.Name, says)
	}
	return b.String()
}

func answer(v decision.Verdict, r decision.Reason) string {
	if r == decision.ReasonNone {
		return v.String()
	}
	return fmt.Sprintf("%s(%s)", v, r)
}

func enum[E any](to *E, value string, parse func(string) (E, bool)) error {
	e, ok := parse(value)
	if !ok {
		return fmt.Errorf("no such value of %T", e)
	}
	*to = e
	return nil
}

func integer(to *int, value string) (err error) {
	*to, err = strconv.Atoi(value)
	return err
}

func duration(to *time.Duration, value string) (err error) {
	*to, err = time.ParseDuration(value)
	return err
}

func statuses(to *decision.StatusSet, value string) error {
	for _, s := range strings.Split(value, ",") {
		var status int
		if err := integer(&status, s); err != nil {
			return err
		}
		if !to.Add(status) {
			return fmt.Errorf("%d is not between 400 and 599", status)
		}
	}
	return nil
}

func replayOn401(to *decision.ReplayOn401, value string) error {
	switch value {
	case "safe":
		*to = decision.ReplaySafe
	case "idempotent":
		*to = decision.ReplayIdempotent
	default:
		return fmt.Errorf("neither safe nor idempotent")
	}
	return nil
}
