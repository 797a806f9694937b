// Package budget says whether there is a token to pay for a retry.
//
// # The payment law
//
// A first attempt deposits floor(1000 x ratio) milli-tokens. A retry costs 1000 of them, and is paid
// wholly by deposits of the last interval I, each milli-token once, or wholly from the reserve, of
// which at most M = min_retries_per_second x I is spent in any interval. Hence, with R(a, b] the
// retries and F(a, b] the first attempts of one account dated in (a, b], for every instant t:
//
//	R(t-I, t] <= ratio x F(t-2I, t] + M
//
// The law is per account, that is per upstream. A grant that is returned before its retry was said
// never happened, and is not counted in R.
//
// # The parts
//
// Budget and Account are the contract; memory (one process) keeps it, and so will every later
// backend. Ledger is the arithmetic, free of clocks and locks, that backends share. EventLog writes
// what budgettest.Check reads to prove the law after the fact.
package budget
