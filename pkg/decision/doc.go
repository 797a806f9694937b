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
// A non-idempotent request is granted a retry only when it is NOT_EXECUTED, and for it worse evidence
// never turns a no into a retry. For the others it may: a 404 is denied, a reset is retried.
//
// Execution and Uncertain say what is known of the request; rules 1 to 7 change the verdict's word,
// never these two. An attempt more never lowers Execution, unless it succeeds. An ambiguous verdict is
// always uncertain.
//
// A worse body, a worse class, less deadline, a longer Retry-After or fewer tokens never turn a no
// into a retry.
//
// The zero value of a fact means "unknown" and is never more permissive than any value it may stand
// for; unknown evidence reads as SENT_NO_RESPONSE. Facts that are news of trouble are absent when
// there is no news: Permanent, Budget (the taking of the token decides), Runtime, MaxWait and
// RetryAfter.
//
// laws_test.go proves these by enumeration.
package decision
