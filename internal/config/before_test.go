package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/decision"
)

func parse(t *testing.T, yaml string) *Config {
	t.Helper()
	c, err := Parse("test.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// declaring is a configuration that judges like no other of another number.
func declaring(t *testing.T, n int) *Config {
	return parse(t, fmt.Sprintf(`upstreams: [{clusters: [a], operations: [{pattern: "POST /%d", idempotency: safe}]}]`, n))
}

// wasSafe asks whether POST /N may have been safe before.
func wasSafe(c *Config, now time.Time, deadline decision.DeadlineState, n int) bool {
	return c.AnyBefore(now, decision.Facts{Deadline: deadline, Remaining: time.Second}, func(before *Config) bool {
		_, class := before.Upstream("a").Operation("POST", fmt.Sprintf("/%d", n), "")
		return class == decision.Safe
	})
}

func TestAnyBefore(t *testing.T) {
	now := time.Now()
	c := declaring(t, 0)
	for n := 1; n <= 3; n++ {
		c = declaring(t, n).After(c, now)
		now = now.Add(time.Minute)
	}
	late := now.Add(57 * time.Minute) // an hour after 0 was replaced
	for n, want := range map[int]bool{0: false, 1: true, 2: true, 3: false, 4: false} {
		if got := wasSafe(c, late, decision.DeadlineKnown, n); got != want {
			t.Errorf("%d, with a deadline: %v", n, got)
		}
	}
	for _, deadline := range []decision.DeadlineState{decision.DeadlineNone, decision.DeadlineUnknown, 77} {
		if !wasSafe(c, late.Add(1000*time.Hour), deadline, 0) || wasSafe(c, late, deadline, 3) {
			t.Errorf("deadline %d", deadline)
		}
	}
}

// Who says that it has more time left than any request takes is not believed to end in time.
func TestAnyBeforeLongDeadline(t *testing.T) {
	now := time.Now()
	c := declaring(t, 1).After(declaring(t, 0), now)
	for remaining, want := range map[time.Duration]bool{0: false, time.Hour: false, time.Hour + 1: true} {
		if got := c.AnyBefore(now.Add(time.Hour), decision.Facts{Deadline: decision.DeadlineKnown, Remaining: remaining},
			func(*Config) bool { return true }); got != want {
			t.Errorf("%v left: %v", remaining, got)
		}
	}
}

// One that comes back is no longer before, and is it again once it is replaced, from then on.
func TestAnyBeforeComesBack(t *testing.T) {
	now := time.Now()
	c := declaring(t, 1).After(declaring(t, 0), now)
	c = declaring(t, 0).After(c, now)
	if wasSafe(c, now, decision.DeadlineNone, 0) || len(c.past.configs) != 1 {
		t.Errorf("what holds now counts as before: %d", len(c.past.configs))
	}
	c = declaring(t, 2).After(c, now.Add(time.Hour))
	if at := now.Add(2*time.Hour - 1); !wasSafe(c, at, decision.DeadlineKnown, 0) || wasSafe(c, at, decision.DeadlineKnown, 1) {
		t.Error("the time does not count from the last replacement")
	}
}

// A longest_request that grows holds for what was replaced before, too; one that shrinks does not.
func TestAnyBeforeLongest(t *testing.T) {
	now := time.Now()
	short := parse(t, "longest_request: 60s")
	c := short.After(declaring(t, 0), now) // 3600s
	if !wasSafe(c, now.Add(time.Hour-1), decision.DeadlineKnown, 0) {
		t.Error("shrunk")
	}
	c = parse(t, "longest_request: 10800s").After(c, now)
	if !wasSafe(c, now.Add(3*time.Hour-1), decision.DeadlineKnown, 0) || wasSafe(c, now.Add(3*time.Hour), decision.DeadlineKnown, 0) {
		t.Error("grown")
	}
}

// The past is bounded. What has been forgotten may have been looser in everything.
func TestAnyBeforeForgets(t *testing.T) {
	now := time.Now()
	c := declaring(t, 0)
	for n := 1; n <= maxPast; n++ {
		c = declaring(t, n).After(c, now)
	}
	if wasSafe(c, now, decision.DeadlineKnown, 999) || !wasSafe(c, now, decision.DeadlineKnown, 0) {
		t.Error("it forgets too early")
	}
	for n := range 20 {
		c = declaring(t, maxPast+1+n).After(c, now)
	}
	if len(c.past.configs) != maxPast {
		t.Errorf("%d are remembered", len(c.past.configs))
	}
	if !wasSafe(c, now.Add(time.Hour-1), decision.DeadlineKnown, 999) || wasSafe(c, now.Add(time.Hour), decision.DeadlineKnown, 999) {
		t.Error("with a deadline: it has to count for an hour")
	}
	if !wasSafe(c, now.Add(1000*time.Hour), decision.DeadlineNone, 999) {
		t.Error("without a deadline: it has to count for ever")
	}
	// The same two for ever are only two.
	c = declaring(t, 0)
	for n := range 1000 {
		c = declaring(t, n%2).After(c, now)
	}
	if len(c.past.configs) != 1 || wasSafe(c, now, decision.DeadlineNone, 999) {
		t.Errorf("%d are remembered of two", len(c.past.configs))
	}
}

// A past of large configurations is bounded too.
func TestAnyBeforeForgetsLargeOnes(t *testing.T) {
	now := time.Now()
	large := func(n int) *Config {
		var yaml strings.Builder
		fmt.Fprintf(&yaml, "upstreams:\n- {clusters: [a], operations: [{pattern: \"POST /%d\", idempotency: safe}]}\n", n)
		for i := range 20 { // 400 kB
			fmt.Fprintf(&yaml, "- clusters:\n")
			for k := range 100 {
				fmt.Fprintf(&yaml, "  - x%d-%d-%s\n", i, k, strings.Repeat("x", 190))
			}
		}
		return parse(t, yaml.String())
	}
	c := large(0)
	for n := 1; n <= 3; n++ {
		c = large(n).After(c, now)
	}
	if n := len(c.past.configs); n != 2 || !wasSafe(c, now, decision.DeadlineKnown, 999) {
		t.Errorf("%d are remembered, want 2", n)
	}
}

func TestJudgesAlike(t *testing.T) {
	base := `upstreams: [{clusters: [a], policy: {distrusted_statuses: [408, 429]}, operations: [{pattern: "PUT /", idempotency: safe}]}]`
	for yaml, want := range map[string]bool{
		`upstreams: [{clusters: [a], policy: {distrusted_statuses: [429, 408], max_attempts: 2, shadow: true}, operations: [{name: x, pattern: "PUT /", idempotency: safe}]}]`: true,
		`upstreams: [{clusters: [a], policy: {distrusted_statuses: [429]}, operations: [{pattern: "PUT /", idempotency: safe}]}]`:                                              false,
		`upstreams: [{clusters: [b], policy: {distrusted_statuses: [408, 429]}, operations: [{pattern: "PUT /", idempotency: safe}]}]`:                                         false,
		`upstreams: [{clusters: [a], policy: {distrusted_statuses: [408, 429]}, operations: [{pattern: "PUT /", idempotency: idempotent}]}]`:                                   false,
		`upstreams: [{clusters: [a], policy: {distrusted_statuses: [408, 429]}, operations: [{route_operation: PUT, idempotency: safe}]}]`:                                     false,
		`upstreams: [{clusters: [a], policy: {distrusted_statuses: [408, 429]}}]`:                                                                                              false,
		"defaults: {distrusted_statuses: [425]}\n" + base:                                                                                                                      false,
		``: false,
	} {
		if got := parse(t, base).judgement() == parse(t, yaml).judgement(); got != want {
			t.Errorf("%v: %s", got, yaml)
		}
	}
}

func TestEmpty(t *testing.T) {
	for yaml, want := range map[string]bool{"": true, "# nothing\n\n": true, "---\n": true, "{}": false, "defaults: {}": false, "defaults:\n": false} {
		if got := parse(t, yaml).Empty(); got != want {
			t.Errorf("%q: %v", yaml, got)
		}
	}
}
