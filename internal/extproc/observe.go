package extproc

import (
	"context"
	"log/slog"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// observe counts a decision and logs it: at debug level, and as a warning where the request ends with
// an outcome that somebody has to reconcile.
func (s *Server) observe(f *failure, d decision.Decision) {
	s.Metrics.Decision(f.Cluster, d)
	about := entry(f, d)
	s.remember(about)
	level, message := slog.LevelDebug, "decided"
	if d.Uncertain && d.Verdict != decision.Retry {
		level, message = slog.LevelWarn, "uncertain outcome"
		s.enter(about)
	}
	ctx := context.Background()
	if !s.Log.Enabled(ctx, level) {
		return
	}
	s.Log.LogAttrs(ctx, level, message,
		slog.String("case", f.caseID),
		slog.String("request_id", f.RequestID),
		slog.String("verdict", d.Verdict.String()),
		slog.String("reason", d.Reason.String()),
		slog.String("category", d.Category.String()),
		slog.Int("rule", d.Rule),
		slog.String("evidence", d.Evidence.String()),
		slog.String("execution", d.Execution.String()),
		slog.Duration("wait", d.Wait),
		slog.Int("attempt", f.Number),
		slog.String("upstream", f.Cluster),
		slog.String("operation", f.operation),
		slog.String("method", f.Method),
		slog.String("path", f.Path),
		slog.String("cause", f.Details),
		slog.String("transport", f.Transport))
}
