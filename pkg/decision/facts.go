package decision

import "time"

// Facts is what is known when one attempt of a request has ended. The zero value knows nothing and
// is never answered with a retry.
type Facts struct {
	// Evidence says how far this attempt got.
	Evidence Evidence
	// Status is the final status code that the upstream itself sent, or 0. It counts only with
	// ResponseReceived and PartialResponse.
	Status int
	// Permanent is the category of a failure that no further attempt can cure, PermanentNone when
	// nothing of the kind is known.
	Permanent Permanent

	// Idempotency is the operation's class after the key was checked; see Idempotency.WithKey.
	Idempotency Idempotency
	// Body says whether the request's body can be sent again; see Body.Replayability.
	Body Replayability
	// EarlyData says whether the client itself sent Early-Data (RFC 8470); it decides about 425.
	EarlyData EarlyData
	// Credential is what is known of the credential that this attempt carried; it decides about 401.
	Credential Credential

	// Attempt counts this attempt, from 1. Below 1 means not known, and reads as exhausted.
	Attempt int
	// Earlier is what is known of the attempts before this one. It is ignored when Attempt is 1.
	Earlier Earlier
	// PreviousWait is the wait before this attempt, or 0 when it is not remembered. Only decorrelated
	// jitter reads it.
	PreviousWait time.Duration

	// Delivery says whether a byte of this attempt's answer has reached the caller.
	Delivery Delivery
	// Deadline says which of the three cases holds for the time left to the request.
	Deadline DeadlineState
	// Remaining is the time left to the request; it counts only with DeadlineKnown.
	Remaining time.Duration
	// MaxWait is the longest wait that whoever executes the retry can hold; 0 means no limit, below 0
	// that it can hold none.
	MaxWait time.Duration
	// RetryAfter is the upstream's wish as ParseRetryAfter read it, 0 when absent; it counts with 429
	// and 503.
	RetryAfter time.Duration
	// Budget is what a look at the retry budget showed.
	Budget BudgetState
	// Runtime says whether the process that would execute the wait is shutting down.
	Runtime RuntimeState
}

// Evidence says how far an attempt got. Only a stage failure that proves it produces NotSent; a
// generic I/O error, and anything unknown or missing, reads as SentNoResponse.
type Evidence uint8

const (
	// EvidenceUnknown is read as SentNoResponse.
	EvidenceUnknown Evidence = iota
	// NotSent is proof that the server never received the request.
	NotSent
	// SentNoResponse: some or all of the request was written, no final header arrived.
	SentNoResponse
	// ResponseReceived: final headers arrived, whatever the status.
	ResponseReceived
	// PartialResponse: headers and part of the body arrived.
	PartialResponse
)

// Idempotency is the class of an operation (RFC 9110 section 9.2 for the first two).
type Idempotency uint8

const (
	// IdempotencyUnknown is read as NonIdempotent.
	IdempotencyUnknown Idempotency = iota
	// NonIdempotent: executing it twice may have a second effect.
	NonIdempotent
	// IdempotentWithKey: the operation honours an idempotency key, and the request carries exactly
	// one valid key.
	IdempotentWithKey
	// Idempotent: executing it twice has the effect of once.
	Idempotent
	// Safe: it has no effect that anybody asked for.
	Safe
)

// Permanent is the category of a failure that another attempt cannot cure. Rate limits, overload,
// maintenance mode, a missing host and injected faults are not permanent. A value outside this list is.
type Permanent uint8

const (
	// PermanentNone: nothing permanent is known.
	PermanentNone Permanent = iota
	NoCluster
	NoRoute
	DirectResponse
	RejectedByFilter
	Certificate
	RequestInvalid
)

// Execution says whether a request was executed, as a maximum over its attempts in the order
// NotExecuted < Executed < ExecutionUnknown.
type Execution uint8

const (
	// ExecutionUnknown is the zero value and the greatest: it may or may not have been executed.
	ExecutionUnknown Execution = iota
	NotExecuted
	Executed
)

// Max returns the greater of the two in the order NotExecuted < Executed < ExecutionUnknown.
func (e Execution) Max(other Execution) Execution {
	switch {
	case e == NotExecuted && other == NotExecuted:
		return NotExecuted
	case (e == NotExecuted || e == Executed) && (other == NotExecuted || other == Executed):
		return Executed
	}
	return ExecutionUnknown
}

// Certainty says whether how an attempt ended leaves its outcome open.
type Certainty uint8

const (
	// CertaintyUnknown is read as OutcomeUncertain.
	CertaintyUnknown Certainty = iota
	// OutcomeCertain: the attempt's end left nothing to reconcile.
	OutcomeCertain
	// OutcomeUncertain: SENT_NO_RESPONSE, PARTIAL_RESPONSE, 502-504, a distrusted status, or unknown
	// evidence.
	OutcomeUncertain
)

// Earlier is what is known of all attempts before this one. The zero value means that they are not
// remembered: UNKNOWN and uncertain.
type Earlier struct {
	Execution Execution
	Certainty Certainty
}

// DeadlineState says which of the cases of a request's deadline holds.
type DeadlineState uint8

const (
	// DeadlineUnknown: nothing is known of the deadline, so no further attempt is said to fit.
	DeadlineUnknown DeadlineState = iota
	// DeadlineNone: the request is known to have no deadline.
	DeadlineNone
	// DeadlineKnown: Facts.Remaining is left.
	DeadlineKnown
)

// Delivery says whether part of the attempt's answer has reached the caller.
type Delivery uint8

const (
	// DeliveryUnknown is read as Delivered where an answer had begun to arrive.
	DeliveryUnknown Delivery = iota
	NotDelivered
	Delivered
)

// BudgetState is what a look at the retry budget showed; the token itself is taken after all rules
// have said yes.
type BudgetState uint8

const (
	// BudgetUnknown passes rule 2: the taking decides.
	BudgetUnknown BudgetState = iota
	BudgetAvailable
	// BudgetEmpty: a token was refused less than 50 ms ago.
	BudgetEmpty
)

// RuntimeState says whether the process may still begin a wait.
type RuntimeState uint8

const (
	// RuntimeServing is the zero value: a process knows its own draining. Any other value is draining.
	RuntimeServing RuntimeState = iota
	RuntimeDraining
)

// EarlyData says whether the client sent the request in TLS early data (RFC 8470).
type EarlyData uint8

const (
	// EarlyDataUnknown is read as EarlyDataSent.
	EarlyDataUnknown EarlyData = iota
	EarlyDataNotSent
	EarlyDataSent
)

// Credential is what is known of the credential that a 401 answered.
type Credential uint8

const (
	// CredentialNotOurs: it was not issued by the upstream's credential source, or there is none.
	CredentialNotOurs Credential = iota
	// CredentialRefreshable: it was issued by this very source, which can issue another one.
	CredentialRefreshable
	// CredentialRefreshed: a refresh has been tried already, or gave the same credential again.
	CredentialRefreshed
)
