package extproc

import (
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// shadows reports whether decisions on an upstream's answers are only counted, logged and entered: no
// token is taken, nothing waits, and the answer passes as if nobody had looked.
func (c *call) shadows(upstream string) bool {
	return c.server.Shadow != nil && c.server.Shadow(upstream) || c.config.Shadow(upstream)
}

// watch is what shadow mode does with a decision. The credential filter sets credentials in the shadow too, so
// the source is told of one that was rejected: else it would be sent until it expires.
func (c *call) watch(f *failure, d decision.Decision, answer evidence.Headers) *extprocv3.ProcessingResponse {
	f.tell()
	c.observe(f, d)
	return new(reply).withoutControl(answer).toHeaders()
}
