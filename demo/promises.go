package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/verdictproxy/verdict/test/stack"
	"github.com/verdictproxy/verdict/test/upstream"
)

// exchange is one request as its client and its upstream saw it.
type exchange struct {
	scenario
	answer stack.Answer
	err    error
	hits   []upstream.Hit
}

func (e exchange) effects() int {
	n := 0
	for _, hit := range e.hits {
		if hit.Executed {
			n++
		}
	}
	return n
}

// safe: what it asks for has no effect that anybody asked for, by its method or as declared.
func (e exchange) safe() bool { return e.request.Method == "" || e.request.Target == "/search" }

// repeatable: it may be executed more than once.
func (e exchange) repeatable() bool { return e.safe() || e.want.effects > 1 }

func (e exchange) failed() bool {
	grpc := e.answer.Header.Get("Grpc-Status")
	return e.err != nil || e.answer.Status >= 400 || grpc != "" && grpc != "0"
}

// maxExecutions of what may be repeated: Verdict's default of attempts.
const maxExecutions = 3

// late is Envoy's word for an attempt that the upstream did not answer in time: the machine's slowness,
// where the upstream has answered in the end.
func (e exchange) late() bool {
	return e.answer.Status == http.StatusGatewayTimeout && e.answer.Report().Evidence == sent
}

// broken says which promise was broken, "" for none. They hold whatever happens to Verdict, to its store
// and to the upstream.
func (e exchange) broken() string {
	report, effects := e.answer.Report(), e.effects()
	limit := 1
	if e.repeatable() {
		limit = maxExecutions
	}
	last := upstream.Hit{}
	if len(e.hits) > 0 {
		last = e.hits[len(e.hits)-1]
	}
	switch {
	case effects > limit:
		return fmt.Sprintf("executed %d times", effects)
	case last.Fault == "ok" && last.Executed && e.failed() && !e.late():
		return "the upstream answered well, and the client saw a failure"
	case e.err != nil:
		return "no answer: " + e.err.Error()
	case len(e.answer.HeadersWith("x-verdict-")) > 0:
		return "an internal header reached the client"
	case report.Execution == "NOT_EXECUTED" && effects > 0:
		return "it was executed, and reported as not executed"
	case e.failed() && !e.safe() && effects > 0 && unsure(last.Fault) && report.AmbiguityID == "":
		return "it was executed, and the client was told of a plain failure"
	}
	return ""
}

// unsure: a fault after which nobody but the upstream knows whether the request was executed, or of which
// its status says nothing.
func unsure(fault string) bool {
	word, _, _ := strings.Cut(fault, " ")
	switch word {
	case "ok", "401", "404", "425", "429", "500":
		return false
	}
	return true
}

// unexpected says how the exchange differs from what the scenario wants while nothing is broken; "" if it
// does not.
func (e exchange) unexpected() string {
	w, report := e.want, e.answer.Report()
	problem := e.answer.Header.Get("content-type") == "application/problem+json"
	got := fmt.Sprintf("status %d, reason %q, %d hits, %d effects, uncertain %v, problem body %v",
		e.answer.Status, report.Reason, len(e.hits), e.effects(), report.AmbiguityID != "", problem)
	wanted := fmt.Sprintf("status %d, reason %q, %d hits, %d effects, uncertain %v, problem body %v",
		w.status, w.reason, w.hits, w.effects, w.uncertain, w.problem)
	if got == wanted {
		return ""
	}
	return "got " + got + "; want " + wanted
}
