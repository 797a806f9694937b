package decision

// outcome is a rule's answer; the zero value lets the next rule speak.
type outcome struct {
	verdict Verdict
	reason  Reason
	wait    window
}

func denied(r Reason) outcome    { return outcome{verdict: Denied, reason: r} }
func ambiguous(r Reason) outcome { return outcome{verdict: Ambiguous, reason: r} }

// rules are tried in this order, and the first answer counts. The order is the specification's.
var rules = [...]struct {
	name  string
	apply func(Facts, Policy, assessment) outcome
}{
	{"attempts_exhausted", attemptsExhausted},
	{"budget_empty", budgetEmpty},
	{"body_not_replayable", bodyNotReplayable},
	{"response_already_delivered", responseAlreadyDelivered},
	{"runtime_draining", runtimeDraining},
	{"deadline_below_minimum", deadlineBelowMinimum},
	{"permanent_failure", permanentFailure},
	{"possibly_executed", possiblyExecuted},
	{"status_and_failure", matrix},
}

func attemptsExhausted(f Facts, p Policy, _ assessment) outcome {
	if f.Attempt < 1 || f.Attempt >= p.MaxAttempts {
		return denied(ReasonMaxAttempts)
	}
	return outcome{}
}

// budgetEmpty only looks. The token is taken, in one step, when all rules have said yes.
func budgetEmpty(f Facts, _ Policy, _ assessment) outcome {
	if f.Budget == BudgetEmpty {
		return denied(ReasonBudgetExhausted)
	}
	return outcome{}
}

func bodyNotReplayable(f Facts, _ Policy, _ assessment) outcome {
	if f.Body == Replayable || f.Body == Reopenable {
		return outcome{}
	}
	return denied(ReasonBodyNotReplayable)
}

// responseAlreadyDelivered reads an unknown delivery as delivered only where there was an answer that
// could have been.
func responseAlreadyDelivered(f Facts, _ Policy, a assessment) outcome {
	answered := a.evidence == ResponseReceived || a.evidence == PartialResponse
	if f.Delivery == NotDelivered || f.Delivery != Delivered && !answered {
		return outcome{}
	}
	return denied(ReasonResponseAlreadyDelivered)
}

func runtimeDraining(f Facts, _ Policy, _ assessment) outcome {
	if f.Runtime == RuntimeServing {
		return outcome{}
	}
	return denied(ReasonRuntimeDraining)
}

func deadlineBelowMinimum(f Facts, p Policy, _ assessment) outcome {
	switch f.Deadline {
	case DeadlineNone:
		return outcome{}
	case DeadlineKnown:
		if f.Remaining >= p.MinAttemptBudget && f.Remaining > 0 {
			return outcome{}
		}
	}
	return denied(ReasonDeadline)
}

func permanentFailure(f Facts, _ Policy, _ assessment) outcome {
	if f.Permanent == PermanentNone {
		return outcome{}
	}
	return denied(ReasonPermanentFailure)
}

func possiblyExecuted(f Facts, _ Policy, a assessment) outcome {
	switch {
	case a.class != NonIdempotent:
		return outcome{}
	case a.earlierUnproven:
		return ambiguous(ReasonEarlierAttempt)
	case a.evidence != SentNoResponse:
		return outcome{}
	case f.Evidence == SentNoResponse:
		return ambiguous(ReasonSentNoResponse)
	}
	return ambiguous(ReasonNoEvidence)
}
