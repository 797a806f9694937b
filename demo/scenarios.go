package main

import (
	"strings"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

const key = "idempotency-key: order-17"

func retried(evidence string, attempts int) want {
	n := attempts - 1
	return want{
		status:   200,
		evidence: strings.TrimSuffix(strings.Repeat(evidence+" ", n), " "),
		verdicts: strings.TrimSuffix(strings.Repeat("retry ", n), " "),
		attempts: attempts, hits: attempts,
	}
}

func (w want) executed(effects int) want       { w.effects = effects; return w }
func (w want) hit(hits int) want               { w.hits = hits; return w }
func (w want) after(waited time.Duration) want { w.waited = waited; return w }
func (w want) inDoubt(problem bool) want       { w.uncertain, w.problem = true, problem; return w }
func ended(status int, evidence, word, r string) want {
	return want{status: status, evidence: evidence, verdicts: word, reason: r, attempts: 1, hits: 1, effects: 1}
}

var scenarios = []scenario{
	{"GET, all is well", "answers 200", get("/", "ok"), nil, want{status: 200, attempts: 1, hits: 1, effects: 1}},
	{"GET, connection reset", "reads the request, resets; then 200", get("/", "reset,ok"), nil, retried(sent, 2).executed(2)},
	{"GET, reset three times", "resets every time", get("/", "reset"), nil,
		want{status: 503, evidence: sent + " " + sent + " " + sent, verdicts: "retry retry denied", reason: "max_attempts", attempts: 3, hits: 3, effects: 3}},
	{"GET, 503 with Retry-After", "503, Retry-After: 1; then 200", get("/", "503 retry-after=1,ok"), nil, retried(received, 2).executed(2).after(time.Second)},
	{"GET, 404", "answers 404", get("/", "404"), nil, ended(404, received, "denied", "status_not_retryable")},
	{"GET, huge error page", "503 with 40 MB", get("/", "503 body=40MB"), nil, ended(503, received, "denied", "error_body_too_large")},

	{"POST, connection reset", "reads the request, resets", post("/payments", "reset"), nil, ended(503, sent, "ambiguous", "sent_no_response").inDoubt(true)},
	{"POST, connection closed", "reads the request, closes", post("/payments", "fin"), nil, ended(503, sent, "ambiguous", "sent_no_response").inDoubt(true)},
	{"POST, no answer in time", "reads the request, is silent", post("/payments", "stuck"), nil, ended(504, sent, "ambiguous", "sent_no_response").inDoubt(true)},
	{"POST, garbage", "answers bytes that are no HTTP", post("/payments", "garbage"), nil, ended(502, sent, "ambiguous", "sent_no_response").inDoubt(true)},
	{"POST, half a header", "sends half a response head", post("/payments", "half-header"), nil, ended(502, sent, "ambiguous", "sent_no_response").inDoubt(true)},
	{"POST, gRPC, reset", "reads the request, resets", post("/pay.Pay/Do", "reset", "content-type: application/grpc"), nil, ended(200, sent, "ambiguous", "sent_no_response").inDoubt(false)},

	{"POST, port closed", "nobody listens", at("closed", post("/payments", "")), nil,
		want{status: 503, evidence: notSent + " " + notSent + " " + notSent, verdicts: "retry retry denied", reason: "max_attempts", attempts: 3}},
	{"POST, port opens meanwhile", "listens after 0.4 s", at("late", post("/payments", "ok")), openLate, retried(notSent, 2).hit(1).executed(1).after(800 * time.Millisecond)},
	{"POST, circuit breaker", "is not asked", at("overflow", post("/payments", "")), nil,
		want{status: 503, evidence: notSent + " " + notSent + " " + notSent, verdicts: "retry retry denied", reason: "max_attempts", attempts: 3}},
	{"POST, wrong certificate", "shows a certificate of another CA", at("tls-other-ca", post("/payments", "")), nil,
		want{status: 503, evidence: notSent, verdicts: "denied", reason: "permanent_failure", attempts: 1}},
	{"POST, no route", "is not asked", at("no-route", post("/payments", "")), nil,
		want{status: 404, evidence: notSent, verdicts: "denied", reason: "permanent_failure", attempts: 1}},
	{"POST, stream refused", "REFUSED_STREAM; then 200", at("h2", post("/payments", "refused,ok")), nil, retried(notSent, 2).executed(1)},
	{"POST, GOAWAY below it", "GOAWAY below the stream; then 200", at("h2", post("/payments", "goaway:below,ok")), nil, retried(notSent, 2).executed(1)},
	{"POST, GOAWAY at it", "GOAWAY at the stream, closes", at("h2", post("/payments", "goaway:at")), nil, ended(503, sent, "ambiguous", "sent_no_response").inDoubt(true)},

	{"POST, 503", "answers 503", post("/payments", "503"), nil, ended(503, received, "ambiguous", "gateway_status").inDoubt(false)},
	{"POST, 500", "answers 500", post("/payments", "500"), nil, ended(500, received, "denied", "status_not_retryable")},
	{"POST, 429 with Retry-After", "429, Retry-After: 1; then 200", post("/payments", "429 retry-after=1,ok"), nil, retried(received, 2).executed(1).after(time.Second)},
	{"POST, 429 for an hour", "429, Retry-After: 3600", post("/payments", "429 retry-after=3600"), nil, ended(429, received, "denied", "retry_after_too_long").executed(0)},
	{"POST, 425 twice", "425, 425", post("/payments", "425"), nil,
		want{status: 425, evidence: received + " " + received, verdicts: "retry denied", reason: "too_early", attempts: 2, hits: 2}},
	{"POST, lying upstream", "503 that says x-verdict-control: retry", post("/payments", "503 lies"), nil, ended(503, received, "ambiguous", "gateway_status").inDoubt(false)},

	{"POST with a key it honours", "resets; then 200", post("/orders", "reset,ok", key), nil, retried(sent, 2).executed(2)},
	{"POST with two keys", "resets", post("/orders", "reset", key, "idempotency-key: order-18"), nil, ended(503, sent, "ambiguous", "sent_no_response").inDoubt(true)},
	{"POST declared safe", "resets; then 200", post("/search", "reset,ok"), nil, retried(sent, 2).executed(2)},

	{"PUT, connection reset", "resets; then 200", put("/orders/17", "reset,ok"), nil, retried(sent, 2).executed(2)},
	{"PUT, reset three times", "resets every time", put("/orders/17", "reset"), nil,
		want{status: 503, evidence: sent + " " + sent + " " + sent, verdicts: "retry retry denied", reason: "max_attempts", attempts: 3, hits: 3, effects: 3, uncertain: true, problem: true}},
	{"PUT declared non-idempotent", "resets", put("/log/today", "reset"), nil, ended(503, sent, "ambiguous", "sent_no_response").inDoubt(true)},
	{"PUT that means POST", "resets", put("/orders/17", "reset", "x-http-method-override: POST"), nil, ended(503, sent, "ambiguous", "sent_no_response").inDoubt(true)},
	{"PUT, 2 MB upload", "reads it, resets", large(put("/orders/17", "reset")), nil, ended(503, sent, "denied", "body_not_replayable").inDoubt(true)},
}

// withoutVerdict are played after Verdict was killed: traffic flows, nothing is retried, and Envoy
// itself says that nobody judged.
var withoutVerdict = []scenario{
	{"Verdict down: GET", "answers 200", get("/", "ok"), nil, want{status: 200, attempts: 1, hits: 1, effects: 1}},
	{"Verdict down: GET, reset", "resets", get("/", "reset"), nil, want{status: 503, attempts: 1, hits: 1, effects: 1}},
	{"Verdict down: POST, reset", "resets", post("/payments", "reset"), nil, ended(503, sent, "ambiguous", "no_evidence").inDoubt(false)},
}

func large(r stack.Request) stack.Request {
	r.Body = strings.Repeat("0123456789abcdef", 2<<20/16)
	return r
}

func openLate(open func() error) error {
	time.Sleep(400 * time.Millisecond)
	return open()
}
