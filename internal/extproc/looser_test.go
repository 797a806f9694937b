package extproc

import (
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/internal/config"
)

// replace puts another configuration in force, as a reload does.
func (l *lab) replace(t *testing.T, yaml string) {
	t.Helper()
	next, err := config.Parse("next.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	next = next.After(l.Config(), time.Now())
	l.Config = func() *config.Config { return next }
}

// judged is what a new judge says of an answer.
func (l *lab) judged(t *testing.T, headers string) string {
	t.Helper()
	e := l.open(t, judgeMetadata())
	defer e.close()
	return describe(e.send(showHeaders(strings.Fields(headers))))
}

const (
	// The second attempt of a PUT was refused, so that alone it could be followed by a third.
	secondRefused = "method=PUT path=/pay attempt=2 sent=0 details=upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}"
	ambiguous     = "ambiguous(earlier_attempt) NOT_SENT UNKNOWN attempts=2 uncertain: i1"
)

func TestLooserBefore(t *testing.T) {
	const strict = `upstreams: [{clusters: [app], operations: [{pattern: "PUT /pay", idempotency: non_idempotent}, {pattern: "PUT /", idempotency: idempotent}]}]`
	for _, test := range []struct {
		name, before, now string
		headers           string // of the second attempt, beside secondRefused
		looser            bool
	}{
		{"an operation became stricter", ``, strict, "", true},
		{"an operation's pattern was loosened then", `upstreams: [{clusters: [app], operations: [{pattern: "POST /pay", idempotency: idempotent}]}]`, ``, "method=POST", true},
		{"an upstream left its entry", `upstreams: [{clusters: [app], operations: [{pattern: "POST /pay", idempotency: idempotent}]}]`,
			`upstreams: [{clusters: [other], operations: [{pattern: "POST /pay", idempotency: idempotent}]}]`, "method=POST", true},
		{"an upstream came to an entry", `upstreams: [{clusters: [other], operations: [{pattern: "PUT /pay", idempotency: non_idempotent}]}]`,
			`upstreams: [{clusters: [other, app], operations: [{pattern: "PUT /pay", idempotency: non_idempotent}]}]`, "", true},
		{"a route's operation lost its declaration", `upstreams: [{clusters: [app], operations: [{route_operation: pay, idempotency: safe}]}]`, ``, "method=POST operation=pay", true},
		{"a key was honoured", `upstreams: [{clusters: [app], operations: [{pattern: "POST /pay", idempotency: idempotent_with_key}]}]`, ``, "method=POST key=k1", true},
		{"a key was honoured, and there was none", `upstreams: [{clusters: [app], operations: [{pattern: "POST /pay", idempotency: idempotent_with_key}]}]`, ``, "method=POST", false},
		{"a status is distrusted now", ``, `upstreams: [{clusters: [app], policy: {distrusted_statuses: [429]}}]`, "method=POST", true},
		{"another status was distrusted", `defaults: {distrusted_statuses: [408]}`, `defaults: {distrusted_statuses: [429]}`, "method=POST", true},
		{"a status is trusted now", `defaults: {distrusted_statuses: [408, 429]}`, `defaults: {distrusted_statuses: [429]}`, "method=POST", false},
		{"nothing changed", strict, strict, "", false},
		{"what proves nothing changed", `defaults: {max_attempts: 9, transient_statuses: [500]}`, `defaults: {max_attempts: 4, replay_on_401: idempotent, budget: {ratio: 0.1}}`, "method=POST", false},
		{"an operation became looser", `upstreams: [{clusters: [app], operations: [{pattern: "PUT /pay", idempotency: non_idempotent}]}]`, ``, "", false},
		{"another operation became stricter", ``, `upstreams: [{clusters: [app], operations: [{pattern: "DELETE /pay", idempotency: non_idempotent}]}]`, "method=POST", false},
		{"its method was overridden all along", `upstreams: [{clusters: [app], operations: [{pattern: "POST /pay", idempotency: idempotent}]}]`, ``, "method=POST override=PUT", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			inLab(t, test.before, func(t *testing.T, l *lab) {
				l.replace(t, test.now)
				second := secondRefused + " " + test.headers
				if got := l.judged(t, second); strings.HasPrefix(got, ambiguous) != test.looser {
					t.Errorf("attempt 2: %s", got)
				}
				if first := l.judged(t, second+" attempt=1"); !strings.Contains(first, "retry, else") {
					t.Errorf("attempt 1: %s", first)
				}
			})
		})
	}
}

// The finalizer, which labels where the judge did not answer, says the same.
func TestLooserBeforeAtTheFinalizer(t *testing.T) {
	inLab(t, ``, func(t *testing.T, l *lab) {
		l.replace(t, `upstreams: [{clusters: [app], operations: [{pattern: "PUT /pay", idempotency: non_idempotent}]}]`)
		e := l.open(t, judgeMetadata("x-verdict-role", "finalizer"))
		defer e.close()
		if got := describe(e.send(showHeaders(strings.Fields(secondRefused + " outer-details=via_upstream")))); !strings.HasPrefix(got, ambiguous) {
			t.Error(got)
		}
	})
}

// What was looser counts until no request from before can live, and for ever where the request has no
// deadline.
func TestLooserBeforeEnds(t *testing.T) {
	const strict = `upstreams: [{clusters: [app], operations: [{pattern: "PUT /pay", idempotency: non_idempotent}]}]`
	for _, test := range []struct {
		longest string
		after   time.Duration
		headers string
		looser  bool
	}{
		{"", time.Hour - time.Second, "", true},
		{"", time.Hour, "", false},
		{"\nlongest_request: 60s", time.Hour - time.Second, "", true}, // the longer of the two files' counts
		{"\nlongest_request: 7200s", 2*time.Hour - time.Second, "", true},
		{"\nlongest_request: 7200s", 2 * time.Hour, "", false},
		{"", 10000 * time.Hour, "remaining=-", true},
		{"", 10000 * time.Hour, "remaining=", true},
	} {
		inLab(t, ``, func(t *testing.T, l *lab) {
			l.replace(t, strict+test.longest)
			time.Sleep(test.after)
			if got := l.judged(t, secondRefused+" "+test.headers); strings.Contains(got, "NOT_SENT UNKNOWN attempts=2") != test.looser {
				t.Errorf("%q after %v, %s: %s", test.longest, test.after, test.headers, got)
			}
		})
	}
}

// Shadow mode comes and goes with the configuration.
func TestShadowByConfiguration(t *testing.T) {
	const refused = "sent=0 details=upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}"
	inLab(t, `upstreams: [{clusters: [app], policy: {shadow: true}}]`, func(t *testing.T, l *lab) {
		if got := l.judged(t, refused); got != "as it is" {
			t.Errorf("in the shadow: %s", got)
		}
		if got := l.judged(t, refused+" cluster=other"); !strings.Contains(got, "retry, else") {
			t.Errorf("another upstream: %s", got)
		}
		l.replace(t, ``)
		if got := l.judged(t, refused); !strings.Contains(got, "retry, else") {
			t.Errorf("out of the shadow: %s", got)
		}
		l.replace(t, `defaults: {shadow: true}`)
		if got := l.judged(t, refused); got != "as it is" {
			t.Errorf("all in the shadow: %s", got)
		}
		if got := l.judged(t, "facts=none"); got != "as it is" {
			t.Errorf("all in the shadow, an unknown upstream: %s", got)
		}
		l.replace(t, "defaults: {shadow: true}\nupstreams: [{clusters: [lit], policy: {shadow: false}}]")
		if got := l.judged(t, "facts=none"); !strings.HasPrefix(got, "ambiguous") {
			t.Errorf("not all in the shadow, an unknown upstream: %s", got)
		}
	})
}

// Over many pairs of configurations: where the second attempt of a non-idempotent request is retried, and
// where it is said that nothing was executed, the first attempt was NOT_EXECUTED by what is declared now,
// whatever was declared when it was granted its retry.
func TestNoChangeExecutesTwice(t *testing.T) {
	t.Parallel()
	configs := []string{
		``,
		`defaults: {distrusted_statuses: [429]}`,
		`defaults: {distrusted_statuses: [408, 425, 429], max_attempts: 5}`,
		`upstreams: [{clusters: [app], operations: [{pattern: "/pay", idempotency: non_idempotent}]}]`,
		`upstreams: [{clusters: [app], operations: [{pattern: "/pay", idempotency: idempotent_with_key}]}]`,
		`upstreams: [{clusters: [app], policy: {transient_statuses: [500], replay_on_401: idempotent}, operations: [{pattern: "/pay", idempotency: idempotent}]}]`,
		`upstreams: [{clusters: [app, other], operations: [{route_operation: r, idempotency: safe}]}]`,
		`upstreams: [{clusters: [other], operations: [{pattern: "/pay", idempotency: non_idempotent}]}]`,
	}
	requests := []string{"method=PUT", "method=POST", "method=POST key=k1", "method=POST operation=r", "method=PATCH cluster=other"}
	const refused = "sent=0 details=upstream_reset_before_response_started{remote_connection_failure}"
	const reset = "details=upstream_reset_before_response_started{connection_termination}"
	firsts := []string{refused, reset,
		"status=408 end", "status=425 end", "status=429 end", "status=500 end", "status=503 end"}
	// Alone, it could be followed by a third under every configuration.
	const second = refused
	pairs, bitten := 0, 0
	for _, before := range configs {
		for _, now := range configs {
			inLab(t, now, func(t *testing.T, alone *lab) {
				l := newLab(t, before)
				for _, request := range requests {
					if !strings.HasPrefix(alone.judged(t, request+" path=/pay "+reset), "ambiguous") {
						continue // may be executed twice
					}
					var granted []string
					for _, first := range firsts {
						if strings.Contains(l.judged(t, request+" path=/pay "+first), "retry, else") {
							granted = append(granted, first)
						}
					}
					fresh := l.Config
					l.replace(t, now)
					for _, first := range granted {
						// What this attempt is by what is declared now, had it been judged now.
						today := alone.judged(t, request+" path=/pay "+first)
						pairs++
						got := l.judged(t, request+" path=/pay attempt=2 "+second)
						harmless := strings.Contains(today, " NOT_EXECUTED ") || strings.Contains(today, "retry, else")
						claims := strings.Contains(got, "retry, else") || strings.Contains(got, " NOT_EXECUTED ")
						if !harmless && claims {
							t.Errorf("before: %s\nnow: %s\n%s\nfirst: %s, now %s\nsecond: %s", before, now, request, first, today, got)
						}
						if !harmless {
							bitten++
						}
					}
					l.Config = fresh
				}
			})
		}
	}
	if pairs < 400 || bitten < 100 {
		t.Errorf("only %d pairs, of which the rule forbids %d", pairs, bitten)
	}
}
