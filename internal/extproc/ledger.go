package extproc

import (
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// entry is what a decision was about.
func entry(f *failure, d decision.Decision) ledger.Entry {
	cause := f.Details
	if f.Transport != "" {
		cause += ", " + f.Transport
	}
	return ledger.Entry{
		CaseID: f.caseID, RequestID: f.RequestID, Upstream: f.Cluster, Operation: f.operation,
		Method: f.Method, Path: f.Path, Key: f.Key, Attempts: f.Number, Cause: cause, Decision: d,
	}
}

// enter writes an uncertain outcome down for whoever reconciles it.
func (s *Server) enter(f *failure, d decision.Decision) {
	if s.Ledger != nil {
		s.Ledger.Enter(entry(f, d))
	}
}

// remember keeps a decision for whoever asks why.
func (s *Server) remember(f *failure, d decision.Decision) {
	if s.Recent != nil {
		s.Recent.Add(entry(f, d))
	}
}
