package decision

// row is a row of the matrix of rules 8 and 9: how the attempt ended, as far as it matters. Failure
// rows come before status rows, and a status counts only when the upstream itself sent it.
type row uint8

const (
	rowSentNoResponse   row = iota // also unknown and missing evidence
	rowComplete                    // 2xx, 3xx, 101
	rowNotSent                     // proven: the server never received the request
	rowPartial                     // cut off after a head other than 4xx
	rowUnauthorized                // 401
	rowRequestTimeout              // 408
	rowTooEarly                    // 425
	rowTooManyRequests             // 429
	rowMisdirected                 // 421
	rowOtherClientError            // 4xx
	rowGateway                     // 502, 504, and a distrusted 408, 425 or 429
	rowUnavailable                 // 503
	rowTransient                   // 500 and other 5xx, registered as transient
	rowServerError                 // 500 and other 5xx, not registered
	rowInvalidStatus               // no status, below 100, 1xx other than 101, above 599
)

// matrixRow does not ask what was delivered: that changes the verdict's word (rule 4), and nothing that
// is known of the request.
func matrixRow(e Evidence, f Facts, p Policy) row {
	switch e {
	case NotSent:
		return rowNotSent
	case ResponseReceived:
		return statusRow(f.Status, p)
	case PartialResponse:
		if f.Status >= 400 && f.Status <= 499 {
			return statusRow(f.Status, p)
		}
		return rowPartial
	}
	return rowSentNoResponse
}

func statusRow(status int, p Policy) row {
	switch status {
	case 101:
		return rowComplete
	case 408, 425, 429:
		if p.Distrusted.Has(status) {
			return rowGateway
		}
	}
	switch status {
	case 401:
		return rowUnauthorized
	case 408:
		return rowRequestTimeout
	case 421:
		return rowMisdirected
	case 425:
		return rowTooEarly
	case 429:
		return rowTooManyRequests
	case 502, 504:
		return rowGateway
	case 503:
		return rowUnavailable
	}
	switch {
	case status >= 200 && status <= 399:
		return rowComplete
	case status >= 400 && status <= 499:
		return rowOtherClientError
	case status >= 500 && status <= 599 && p.Transient.Has(status):
		return rowTransient
	case status >= 500 && status <= 599:
		return rowServerError
	}
	return rowInvalidStatus
}

// execution is what the row says of this attempt alone. 408, 425 and 429 are taken at their word.
func (r row) execution() Execution {
	switch r {
	case rowComplete, rowOtherClientError:
		return Executed
	case rowNotSent, rowUnauthorized, rowRequestTimeout, rowTooEarly, rowTooManyRequests, rowMisdirected:
		return NotExecuted
	}
	return ExecutionUnknown
}

// uncertain says whether the row leaves the outcome open; an answer that was cut off does in any row,
// see assess. An invalid status is evidence of nothing.
func (r row) uncertain() bool {
	switch r {
	case rowSentNoResponse, rowGateway, rowUnavailable, rowInvalidStatus:
		return true
	}
	return false
}

// matrix is rule 9: the cells of the rows that rule 8 has let pass.
func matrix(f Facts, p Policy, a assessment) outcome {
	nonIdempotent := a.class == NonIdempotent
	switch a.row {
	case rowNotSent, rowRequestTimeout, rowTooManyRequests:
		return retryInTime(f, p)
	case rowSentNoResponse: // rule 8 has answered for the non-idempotent
		return retryInTime(f, p)
	case rowPartial:
		if nonIdempotent {
			return ambiguous(ReasonPartialResponse)
		}
		return retryInTime(f, p)
	case rowGateway, rowUnavailable:
		if nonIdempotent {
			return ambiguous(ReasonGatewayStatus)
		}
		return retryInTime(f, p)
	case rowTransient:
		if nonIdempotent {
			return denied(ReasonStatusNotRetryable)
		}
		return retryInTime(f, p)
	case rowInvalidStatus:
		if nonIdempotent {
			return ambiguous(ReasonInvalidStatus)
		}
		return denied(ReasonStatusNotRetryable)
	case rowTooEarly:
		if f.Attempt == 1 && f.EarlyData == EarlyDataNotSent {
			return retryInTime(f, p)
		}
		return denied(ReasonTooEarly)
	case rowUnauthorized:
		return unauthorized(f, p, a.class)
	}
	return denied(ReasonStatusNotRetryable)
}

// unauthorized is the row of 401: one refresh and one replay, only for the service's own credential.
func unauthorized(f Facts, p Policy, class Idempotency) outcome {
	switch f.Credential {
	case CredentialRefreshed:
		return denied(ReasonCredentialRejected)
	case CredentialRefreshable:
		replayable := class == Safe ||
			p.ReplayOn401 == ReplayIdempotent && (class == Idempotent || class == IdempotentWithKey)
		if replayable {
			return retryInTime(f, p)
		}
		return denied(ReasonStatusNotRetryable)
	}
	return denied(ReasonCredentialNotOurs)
}
