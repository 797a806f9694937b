package decision

// Reason says why a request must not, or may not safely, be sent again. The list is closed; the same
// words are the metric label, the response header, the log field and the API enum.
type Reason uint8

const (
	// ReasonNone goes with retry and complete.
	ReasonNone Reason = iota

	// Reasons of denied.

	ReasonMaxAttempts
	ReasonBudgetExhausted
	ReasonBodyNotReplayable
	ReasonResponseAlreadyDelivered
	ReasonRuntimeDraining
	ReasonDeadline
	ReasonPermanentFailure
	ReasonRetryAfterTooLong
	ReasonStatusNotRetryable
	ReasonTooEarly
	ReasonCredentialNotOurs
	ReasonCredentialRejected
	ReasonErrorBodyTooLarge
	ReasonRetryNotExecuted

	// Reasons of ambiguous.

	ReasonSentNoResponse
	ReasonPartialResponse
	ReasonGatewayStatus
	ReasonInvalidStatus
	ReasonEarlierAttempt
	ReasonNoEvidence
)

var reasonWords = [...]string{
	ReasonNone:                     "none",
	ReasonMaxAttempts:              "max_attempts",
	ReasonBudgetExhausted:          "budget_exhausted",
	ReasonBodyNotReplayable:        "body_not_replayable",
	ReasonResponseAlreadyDelivered: "response_already_delivered",
	ReasonRuntimeDraining:          "runtime_draining",
	ReasonDeadline:                 "deadline",
	ReasonPermanentFailure:         "permanent_failure",
	ReasonRetryAfterTooLong:        "retry_after_too_long",
	ReasonStatusNotRetryable:       "status_not_retryable",
	ReasonTooEarly:                 "too_early",
	ReasonCredentialNotOurs:        "credential_not_ours",
	ReasonCredentialRejected:       "credential_rejected",
	ReasonErrorBodyTooLarge:        "error_body_too_large",
	ReasonRetryNotExecuted:         "retry_not_executed",
	ReasonSentNoResponse:           "sent_no_response",
	ReasonPartialResponse:          "partial_response",
	ReasonGatewayStatus:            "gateway_status",
	ReasonInvalidStatus:            "invalid_status",
	ReasonEarlierAttempt:           "earlier_attempt",
	ReasonNoEvidence:               "no_evidence",
}

var verdictWords = [...]string{
	VerdictNone: "none",
	Complete:    "complete",
	Retry:       "retry",
	Denied:      "denied",
	Ambiguous:   "ambiguous",
}

var evidenceWords = [...]string{
	EvidenceUnknown:  "UNKNOWN",
	NotSent:          "NOT_SENT",
	SentNoResponse:   "SENT_NO_RESPONSE",
	ResponseReceived: "RESPONSE_RECEIVED",
	PartialResponse:  "PARTIAL_RESPONSE",
}

var executionWords = [...]string{
	ExecutionUnknown: "UNKNOWN",
	NotExecuted:      "NOT_EXECUTED",
	Executed:         "EXECUTED",
}

var idempotencyWords = [...]string{
	IdempotencyUnknown: "unknown",
	NonIdempotent:      "non_idempotent",
	IdempotentWithKey:  "idempotent_with_key",
	Idempotent:         "idempotent",
	Safe:               "safe",
}

var permanentWords = [...]string{
	PermanentNone:    "none",
	NoCluster:        "no_cluster",
	NoRoute:          "no_route",
	DirectResponse:   "direct_response",
	RejectedByFilter: "rejected_by_filter",
	Certificate:      "certificate",
	RequestInvalid:   "request_invalid",
}

func word[E ~uint8](words []string, e E) string {
	if int(e) < len(words) {
		return words[e]
	}
	return "invalid"
}

func (r Reason) String() string      { return word(reasonWords[:], r) }
func (v Verdict) String() string     { return word(verdictWords[:], v) }
func (e Evidence) String() string    { return word(evidenceWords[:], e) }
func (e Execution) String() string   { return word(executionWords[:], e) }
func (i Idempotency) String() string { return word(idempotencyWords[:], i) }
func (p Permanent) String() string   { return word(permanentWords[:], p) }
