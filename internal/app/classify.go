package app

import (
	"context"
	"fmt"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// ClassifyCmd says what a symptom proves.
type ClassifyCmd struct {
	Asked
	EndingFlags
}

// Run writes evidence, category and why on one line.
func (c ClassifyCmd) Run(ctx context.Context, s streams) error {
	return c.ask(func(asked retryv1.DecisionServiceClient) error {
		ending, err := c.EndingFlags.message()
		if err != nil {
			return err
		}
		resp, err := asked.Classify(ctx, &retryv1.ClassifyRequest{Ending: ending})
		if err != nil {
			return err
		}
		category := ""
		if resp.GetPermanent() != 0 {
			category = ", permanent (" + word("PERMANENT_CATEGORY_", resp.GetPermanent()) + ")"
		}
		_, err = fmt.Fprintf(s.out, "%s%s: %s\n", word("EVIDENCE_", resp.GetEvidence()), category, resp.GetWhy())
		return err
	})
}
