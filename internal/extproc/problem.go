package extproc

import (
	"encoding/json"

	"github.com/verdictproxy/verdict/pkg/decision"
)

const problemType = "application/problem+json"

// problem is the body (RFC 9457) with which a caller reconciles an uncertain outcome: by asking the
// upstream, or by replaying with the idempotency key.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	CaseID    string `json:"case_id"`
	RequestID string `json:"request_id,omitempty"`
	Verdict   string `json:"verdict"`
	Reason    string `json:"reason"`
	Evidence  string `json:"evidence"`
	Execution string `json:"execution"`
	Cause     string `json:"cause,omitempty"`
	Upstream  string `json:"upstream,omitempty"`
	Operation string `json:"operation,omitempty"`
	Method    string `json:"method,omitempty"`
	Path      string `json:"path,omitempty"`
	Attempts  int    `json:"attempts,omitempty"`
	Key       string `json:"idempotency_key,omitempty"`
}

func problemBody(f *failure, d decision.Decision) []byte {
	body, err := json.Marshal(problem{
		Type:      "urn:verdict:uncertain-outcome",
		Title:     "The request may or may not have been executed",
		Detail:    "Do not take this for a plain failure. Ask the upstream for the outcome, or replay with the same idempotency key where the operation honours one.",
		CaseID:    f.caseID,
		RequestID: f.RequestID,
		Verdict:   d.Verdict.String(),
		Reason:    d.Reason.String(),
		Evidence:  d.Evidence.String(),
		Execution: d.Execution.String(),
		Cause:     f.Details,
		Upstream:  f.Cluster,
		Operation: f.operation,
		Method:    f.Method,
		Path:      f.Path,
		Attempts:  f.Number,
		Key:       f.Key,
	})
	if err != nil { // strings and a number always encode
		return nil
	}
	return append(body, '\n')
}
