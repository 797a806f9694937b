package decision

import "slices"

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

var replayabilityWords = [...]string{
	ReplayabilityUnknown: "UNKNOWN",
	OneShot:              "ONE_SHOT",
	Reopenable:           "REOPENABLE",
	Replayable:           "REPLAYABLE",
}

var certaintyWords = [...]string{
	CertaintyUnknown: "unknown",
	OutcomeCertain:   "certain",
	OutcomeUncertain: "uncertain",
}

var deliveryWords = [...]string{
	DeliveryUnknown: "unknown",
	NotDelivered:    "not_delivered",
	Delivered:       "delivered",
}

var budgetWords = [...]string{
	BudgetUnknown:   "unknown",
	BudgetAvailable: "available",
	BudgetEmpty:     "empty",
}

var runtimeWords = [...]string{
	RuntimeServing:  "serving",
	RuntimeDraining: "draining",
}

var earlyDataWords = [...]string{
	EarlyDataUnknown: "unknown",
	EarlyDataNotSent: "not_sent",
	EarlyDataSent:    "sent",
}

var credentialWords = [...]string{
	CredentialNotOurs:     "not_ours",
	CredentialRefreshable: "refreshable",
	CredentialRefreshed:   "refreshed",
}

var jitterWords = [...]string{
	FullJitter:         "full",
	DecorrelatedJitter: "decorrelated",
}

// word returns "invalid" for a value outside the table.
func word[E ~uint8](words []string, e E) string {
	if int(e) < len(words) {
		return words[e]
	}
	return "invalid"
}

// parse is the inverse of word. Words are case-sensitive.
func parse[E ~uint8](words []string, s string) (E, bool) {
	i := slices.Index(words, s)
	return E(max(i, 0)), i >= 0
}

func (r Reason) String() string        { return word(reasonWords[:], r) }
func (v Verdict) String() string       { return word(verdictWords[:], v) }
func (e Evidence) String() string      { return word(evidenceWords[:], e) }
func (e Execution) String() string     { return word(executionWords[:], e) }
func (i Idempotency) String() string   { return word(idempotencyWords[:], i) }
func (p Permanent) String() string     { return word(permanentWords[:], p) }
func (r Replayability) String() string { return word(replayabilityWords[:], r) }
func (c Certainty) String() string     { return word(certaintyWords[:], c) }
func (d Delivery) String() string      { return word(deliveryWords[:], d) }
func (b BudgetState) String() string   { return word(budgetWords[:], b) }
func (r RuntimeState) String() string  { return word(runtimeWords[:], r) }
func (e EarlyData) String() string     { return word(earlyDataWords[:], e) }
func (c Credential) String() string    { return word(credentialWords[:], c) }
func (j Jitter) String() string        { return word(jitterWords[:], j) }

// ParseIdempotency reads a declared class. "unknown" is not one: a declaration says something.
func ParseIdempotency(s string) (Idempotency, bool) {
	i, ok := parse[Idempotency](idempotencyWords[:], s)
	return i, ok && i != IdempotencyUnknown
}

// The other Parse functions read every word that String writes, except "invalid"; on anything else
// they return the zero value and false.

func ParseReason(s string) (Reason, bool)         { return parse[Reason](reasonWords[:], s) }
func ParseVerdict(s string) (Verdict, bool)       { return parse[Verdict](verdictWords[:], s) }
func ParseEvidence(s string) (Evidence, bool)     { return parse[Evidence](evidenceWords[:], s) }
func ParseExecution(s string) (Execution, bool)   { return parse[Execution](executionWords[:], s) }
func ParsePermanent(s string) (Permanent, bool)   { return parse[Permanent](permanentWords[:], s) }
func ParseCertainty(s string) (Certainty, bool)   { return parse[Certainty](certaintyWords[:], s) }
func ParseDelivery(s string) (Delivery, bool)     { return parse[Delivery](deliveryWords[:], s) }
func ParseBudget(s string) (BudgetState, bool)    { return parse[BudgetState](budgetWords[:], s) }
func ParseRuntime(s string) (RuntimeState, bool)  { return parse[RuntimeState](runtimeWords[:], s) }
func ParseEarlyData(s string) (EarlyData, bool)   { return parse[EarlyData](earlyDataWords[:], s) }
func ParseCredential(s string) (Credential, bool) { return parse[Credential](credentialWords[:], s) }
func ParseJitter(s string) (Jitter, bool)         { return parse[Jitter](jitterWords[:], s) }
func ParseReplayability(s string) (Replayability, bool) {
	return parse[Replayability](replayabilityWords[:], s)
}

// Reasons returns the closed list: every reason that goes with Denied or Ambiguous.
func Reasons() []Reason { return all[Reason](reasonWords[:])[1:] }

// Verdicts returns every answer that Decide can give.
func Verdicts() []Verdict { return all[Verdict](verdictWords[:])[1:] }

// Evidences returns every evidence, EvidenceUnknown first.
func Evidences() []Evidence { return all[Evidence](evidenceWords[:]) }

// PermanentCategories returns every category but PermanentNone.
func PermanentCategories() []Permanent { return all[Permanent](permanentWords[:])[1:] }

func all[E ~uint8](words []string) []E {
	values := make([]E, len(words))
	for i := range values {
		values[i] = E(i)
	}
	return values
}
