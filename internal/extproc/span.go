package extproc

import (
	"context"
	"time"

	"github.com/verdictproxy/verdict/internal/tracing"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// deciding is a stream's decision, for those who want to know how long it takes and what it was.
type deciding struct {
	role  string    // judge, finalizer or plain
	since time.Time // of Envoy's question; zero once it was counted how long the decision took
	span  tracing.Span
}

// begin says that a failing answer has arrived.
func (c *call) begin(ctx context.Context) {
	c.deciding.span.End() // of an answer that came before, which Envoy does not do
	c.deciding.span = c.server.Tracer.Begin(ctx, c.deciding.role)
	c.deciding.since = time.Now()
}

// decided counts how long it took, not counting the wait that may follow.
func (c *call) decided() {
	if !c.deciding.since.IsZero() {
		c.server.Metrics.Took(c.deciding.role, time.Since(c.deciding.since))
		c.deciding.since = time.Time{}
	}
}

// observe counts, remembers and logs a decision, and ends its span.
func (c *call) observe(f *failure, d decision.Decision) {
	c.decided()
	c.server.observe(f, d)
	c.describe(f, d)
	c.deciding.span.End()
}

// abandoned is said of a retry that was decided and could not be said.
func (c *call) abandoned(f *failure, d decision.Decision) {
	c.server.Metrics.WaitsAbandoned.Inc()
	c.describe(f, d)
	c.deciding.span.Event("wait abandoned")
}

func (c *call) describe(f *failure, d decision.Decision) {
	if !c.deciding.span.Recording() {
		return
	}
	about := tracing.Decided{
		Decision: d, Upstream: f.Cluster, Operation: f.operation, Method: f.Method, Attempt: f.Number,
		Shadow: c.shadows(f.Cluster),
	}
	if d.Uncertain && d.Verdict != decision.Retry {
		about.CaseID = f.caseID
	}
	if d.Evidence == decision.ResponseReceived {
		about.Status = f.Status
	}
	c.deciding.span.Decided(about)
}
