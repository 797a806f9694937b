package app

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// WhyCmd says what was decided on a request.
type WhyCmd struct {
	Admin
	ID string `arg:"" placeholder:"ID" help:"The request's id (x-request-id), or its case's (x-retry-ambiguity-id)."`
}

// Run writes a paragraph for each remembered decision, the oldest first. None is a failure.
func (c WhyCmd) Run(ctx context.Context, s streams) error {
	return c.call(c.Server, func(conn *grpc.ClientConn) error {
		resp, err := retryv1.NewAdminServiceClient(conn).Why(ctx, &retryv1.WhyRequest{Id: c.ID})
		if err != nil {
			return err
		}
		if len(resp.GetDecisions()) == 0 {
			return fmt.Errorf("nothing is remembered of %q: it may have succeeded at once, been decided elsewhere, or be forgotten", c.ID)
		}
		for _, past := range resp.GetDecisions() {
			if _, err := fmt.Fprint(s.out, paragraph(past)); err != nil {
				return err
			}
		}
		return nil
	})
}

func paragraph(p *retryv1.PastDecision) string {
	d := p.GetDecision()
	said := answer(d.GetVerdict(), d.GetReason())
	if d.GetCategory() != 0 {
		said += ", " + word("PERMANENT_CATEGORY_", d.GetCategory())
	}
	if d.GetRule() > 0 {
		said += fmt.Sprintf(", by rule %d", d.GetRule())
	}
	if d.GetWait() != nil {
		said += fmt.Sprintf(", wait %v", d.GetWait().AsDuration())
	}
	execution := "unknown"
	if d.GetExecution() != 0 {
		execution = word("EXECUTION_", d.GetExecution())
	}
	text := fmt.Sprintf("%s attempt %d: %s\n", p.GetTime().AsTime().Format(time.RFC3339Nano), p.GetAttempt(), said)
	text += fmt.Sprintf("  evidence %s, execution %s, %s\n", word("EVIDENCE_", d.GetEvidence()), execution, word("CERTAINTY_", d.GetCertainty()))
	text += fmt.Sprintf("  %s %s to %q", p.GetMethod(), p.GetPath(), p.GetUpstream())
	if d.GetOperation() != "" {
		text += fmt.Sprintf(", operation %q", d.GetOperation())
	}
	if p.GetCause() != "" {
		text += "\n  " + p.GetCause()
	}
	if p.GetCaseId() != "" {
		text += "\n  case " + p.GetCaseId()
	}
	text += "\n"
	for _, r := range p.GetRules() {
		text += fmt.Sprintf("  %d %s: %s\n", r.GetNumber(), r.GetName(), says(r))
	}
	return text
}
