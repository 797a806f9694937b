package decision

import "strings"

// MethodClass returns the class of an operation of which nothing was declared: GET, HEAD, OPTIONS and
// TRACE are safe, PUT and DELETE idempotent (RFC 9110 section 9.2), all else is non-idempotent.
// Methods are case-sensitive.
func MethodClass(method string) Idempotency {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return Safe
	case "PUT", "DELETE":
		return Idempotent
	}
	return NonIdempotent
}

// MaxKeyBytes is the longest idempotency key that is valid.
const MaxKeyBytes = 255

// ValidKey reports whether the request's idempotency-key lines are exactly one valid key: non-empty,
// at most MaxKeyBytes, no comma (two lines joined by a proxy show as one with a comma), no blanks
// around it.
func ValidKey(lines ...string) bool {
	if len(lines) != 1 {
		return false
	}
	key := lines[0]
	return key != "" && len(key) <= MaxKeyBytes && !strings.Contains(key, ",") &&
		strings.Trim(key, " \t") == key
}

// WithKey returns the class that holds for a request, given the declared one: idempotent_with_key
// holds only where the request carries exactly one valid key, and is non_idempotent otherwise.
func (i Idempotency) WithKey(lines ...string) Idempotency {
	if i == IdempotentWithKey && !ValidKey(lines...) {
		return NonIdempotent
	}
	return i
}
