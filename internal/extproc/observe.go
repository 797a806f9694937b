package extproc

import (
	"log/slog"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// observe counts a decision, and writes a line for an outcome that somebody has to reconcile.
func (s *Server) observe(f failure, d decision.Decision) {
	s.Metrics.Decision(f.Cluster, d)
	if !d.Uncertain || d.Verdict == decision.Retry {
		s.Log.Debug("decided", "verdict", d.Verdict, "reason", d.Reason, "evidence", d.Evidence,
			"upstream", f.Cluster, "id", f.ID, "attempt", f.Number, "details", f.Details)
		return
	}
	s.Log.Warn("uncertain outcome",
		slog.String("case", f.ID),
		slog.String("request_id", f.RequestID),
		slog.String("verdict", d.Verdict.String()),
		slog.String("reason", d.Reason.String()),
		slog.String("evidence", d.Evidence.String()),
		slog.String("execution", d.Execution.String()),
		slog.String("upstream", f.Cluster),
		slog.String("operation", f.operation),
		slog.String("method", f.Method),
		slog.String("path", f.Path),
		slog.Int("attempts", f.Number),
		slog.String("cause", f.Details))
}
