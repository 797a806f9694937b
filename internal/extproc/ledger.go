package extproc

import (
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// enter writes an uncertain outcome down for whoever reconciles it.
func (s *Server) enter(f *failure, d decision.Decision) {
	if s.Ledger == nil {
		return
	}
	cause := f.Details
	if f.Transport != "" {
		cause += ", " + f.Transport
	}
	s.Ledger.Enter(ledger.Entry{
		CaseID: f.caseID, RequestID: f.RequestID, Upstream: f.Cluster, Operation: f.operation,
		Method: f.Method, Path: f.Path, Key: f.Key, Attempts: f.Number, Cause: cause, Decision: d,
	})
}
