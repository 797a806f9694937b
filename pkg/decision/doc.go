// Package decision holds the rules that say whether a failed HTTP request may be sent again.
//
// It is pure: facts in, decision out. It reads no clock, takes no lock, draws no random number and
// writes no log; what it needs of these is an argument. It imports the standard library only, and a
// test enforces that.
//
// # The model
//
// A request is made of attempts. Decide is asked when one attempt has ended, and is given the Facts:
// what is known of this attempt (Evidence, Status), of the request (Idempotency, Body), of the
// attempts before it (Earlier), and of the circumstances (deadline, budget, draining).
//
// Nine rules are tried in order; the first that objects decides, and a later rule can never
// re-enable what an earlier one forbade:
//
//  1. attempts exhausted: denied(max_attempts)
//  2. retry budget empty: denied(budget_exhausted)
//  3. body not replayable: denied(body_not_replayable)
//  4. first byte already delivered: denied(response_already_delivered)
//  5. runtime draining: denied(runtime_draining)
//  6. remaining deadline below the minimum attempt budget: denied(deadline)
//  7. permanent failure category: denied(permanent_failure, category)
//  8. not safely idempotent, and possibly executed: ambiguous
//  9. status- and failure-specific rules: the matrix in matrix.go
//
// # What holds for every input
//
// Every enum's zero value means "unknown" and is read the safe way, so that a fact nobody supplied
// never permits a retry that the fact itself would not. Execution and Uncertain say what is known of
// the request; rules 1 to 7 change the verdict's word, never these two. A worse body, less deadline
// or fewer tokens never turn a no into a retry. A non-idempotent request is granted a retry only
// when it is NOT_EXECUTED. laws_test.go proves these over the whole space of facts.
package decision
