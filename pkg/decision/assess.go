package decision

// assessment is what the facts say of the request, whatever the verdict will be. Rules 1 to 7 cannot
// change it, because it is computed before them.
type assessment struct {
	evidence  Evidence
	class     Idempotency
	row       row
	complete  bool
	execution Execution
	uncertain bool
	// earlierUnproven: an earlier attempt is not known to be NOT_EXECUTED.
	earlierUnproven bool
}

func assess(f Facts, p Policy) assessment {
	a := assessment{evidence: f.Evidence, class: f.Idempotency}
	if a.evidence == EvidenceUnknown || a.evidence > PartialResponse {
		a.evidence = SentNoResponse
	}
	if a.class == IdempotencyUnknown || a.class > Safe {
		a.class = NonIdempotent
	}
	a.row = matrixRow(a.evidence, f, p)
	if a.row == rowComplete {
		a.complete, a.execution = true, Executed
		return a
	}

	a.execution = a.row.execution()
	uncertain := a.row.uncertain() || a.evidence == PartialResponse
	if f.Attempt != 1 {
		a.earlierUnproven = f.Earlier.Execution != NotExecuted
		a.execution = a.execution.Max(f.Earlier.Execution)
		uncertain = uncertain || f.Earlier.Certainty != OutcomeCertain
		if a.class == NonIdempotent && a.earlierUnproven {
			a.execution, uncertain = ExecutionUnknown, true
		}
	}
	a.uncertain = uncertain && a.class != Safe
	return a
}
