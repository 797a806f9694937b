package main

import (
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// scenario is one request and what must come of it.
type scenario struct {
	name string
	// did says what the upstream does, for people.
	did     string
	request stack.Request
	// during, where set, runs beside the request; it is given what opens the late port.
	during func(open func() error) error
	want   want
}

// want is what is expected; every field is compared.
type want struct {
	status int
	// evidence and verdicts are of each failing attempt, in their order; reason is of the last one.
	evidence  string
	verdicts  string
	reason    string
	attempts  int
	hits      int
	effects   int
	uncertain bool
	problem   bool
	// waited is the least time that all waits took together.
	waited time.Duration
}

// labConfig is added to envoy/verdict.yaml: a backoff that is long enough for a port to open.
const labConfig = `
- clusters: [late]
  policy: {backoff: {base: 0.8s, max: 1s, jitter: decorrelated}}
`

const (
	notSent  = "NOT_SENT"
	sent     = "SENT_NO_RESPONSE"
	received = "RESPONSE_RECEIVED"
)

func get(target, fault string) stack.Request {
	return stack.Request{Target: target, Fault: fault}
}

func post(target, fault string, header ...string) stack.Request {
	return stack.Request{Method: "POST", Target: target, Fault: fault, Header: header, Body: "10 EUR"}
}

func put(target, fault string, header ...string) stack.Request {
	return stack.Request{Method: "PUT", Target: target, Fault: fault, Header: header, Body: "10 EUR"}
}

func at(host string, r stack.Request) stack.Request {
	r.Host = host + ".example"
	return r
}
