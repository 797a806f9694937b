package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// Each promise that the load generator watches over is seen to be broken when it is.
func TestBrokenPromises(t *testing.T) {
	answer := func(status int, header ...string) stack.Answer {
		a := stack.Answer{Status: status, Header: http.Header{}}
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			a.Header.Add(name, value)
		}
		return a
	}
	hits := func(faults ...string) (all []upstream.Hit) {
		for _, fault := range faults {
			name, refused := strings.CutSuffix(fault, " (refused)")
			all = append(all, upstream.Hit{Fault: name, Complete: true, Executed: !refused})
		}
		return all
	}
	const ambiguous, id = "x-retry-verdict: ambiguous", "x-retry-ambiguity-id: 1"
	pay := scenario{request: post("/payments", ""), want: want{effects: 1}}
	ordered := scenario{request: post("/orders", ""), want: want{effects: 2}}
	read := scenario{request: get("/", "")}
	for _, c := range []struct {
		name   string
		broken string // "" for none
		e      exchange
	}{
		{"well", "", exchange{pay, answer(200), nil, hits("ok")}},
		{"retried after a refusal", "", exchange{pay, answer(200), nil, hits("refused (refused)", "ok")}},
		{"uncertain", "", exchange{pay, answer(503, ambiguous, id), nil, hits("reset")}},
		{"the upstream's own word", "", exchange{pay, answer(500), nil, hits("500")}},
		{"nobody was asked", "", exchange{pay, answer(503), nil, nil}},
		{"a read that failed", "", exchange{read, answer(503), nil, hits("reset", "reset", "reset")}},
		{"a late answer", "", exchange{read, answer(504, "x-retry-evidence: SENT_NO_RESPONSE"), nil, hits("ok")}},
		{"a POST that only reads", "", exchange{scenario{request: post("/search", "")}, answer(503), nil, hits("reset", "reset")}},
		{"a key that is honoured", "", exchange{ordered, answer(200), nil, hits("reset", "ok")}},

		{"paid twice", "executed 2 times", exchange{pay, answer(200), nil, hits("reset", "ok")}},
		{"read too often", "executed 4 times", exchange{read, answer(503), nil, hits("reset", "reset", "reset", "reset")}},
		{"a failure of Verdict's", "answered well", exchange{read, answer(503), nil, hits("reset", "ok")}},
		{"a late answer of another kind", "answered well", exchange{read, answer(504), nil, hits("ok")}},
		{"a gRPC failure", "answered well", exchange{read, answer(200, "grpc-status: 14"), nil, hits("ok")}},
		{"no answer", "no answer: EOF", exchange{read, stack.Answer{}, errors.New("EOF"), nil}},
		{"internal", "internal header", exchange{read, answer(200, "x-verdict-facts: v1"), nil, hits("ok")}},
		{"a lie", "reported as not executed", exchange{pay, answer(503, "x-retry-execution: NOT_EXECUTED"), nil, hits("reset")}},
		{"a plain failure", "told of a plain failure", exchange{pay, answer(503), nil, hits("503 lies")}},
		{"a plain failure of gRPC", "told of a plain failure", exchange{pay, answer(200, "grpc-status: 14"), nil, hits("reset")}},
	} {
		if got := c.e.broken(); (got == "") != (c.broken == "") || !strings.Contains(got, c.broken) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.broken)
		}
	}
}

// No scenario's own wish breaks a promise: what the upstream plays for it is known to unsure.
func TestScenariosBreakNoPromise(t *testing.T) {
	for _, sc := range scenarios {
		if limit := 1; sc.want.effects > limit && !(exchange{scenario: sc}).repeatable() {
			t.Errorf("%s: executed %d times", sc.name, sc.want.effects)
		}
	}
}

// The load generator against an upstream alone, which stands in for Envoy: it goes on, is healthy, and sees
// that the answers are not those of a Verdict.
func TestLoad(t *testing.T) {
	up, err := upstream.Start(upstream.Addrs{})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := listener.Addr().String()
	l := newLoad(loadCmd{Envoy: up.Addrs().H1, Control: up.Addrs().Control, Pause: time.Millisecond, Rate: 100})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.serve(ctx, listener) }()
	report := func() (r summary) {
		if _, err := newControl(own).do(t.Context(), http.MethodGet, "/report", &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	wait := func(what string, ok func(summary) bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(report()); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, report())
			}
		}
	}
	wait("a steady load", func(r summary) bool { return r.Outcomes["steady: GET"][asExpected] > 3 })
	wait("resets without a report", func(r summary) bool { return len(r.Broken) > 0 })
	if err := (&healthCmd{URL: "http://" + up.Addrs().Control + "/stats"}).Run(t.Context()); err != nil {
		t.Error(err)
	}
	if err := (&healthCmd{URL: "http://" + own + "/healthz"}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("healthy with broken promises: %v", err)
	}
	if _, err := l.control.hits(ctx, "any", "an earlier start"); !errors.Is(err, errRestarted) {
		t.Errorf("records of another start: %v", err)
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
