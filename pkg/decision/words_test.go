package decision

import (
	"slices"
	"strings"
	"testing"
)

// TestClosedList compares the words with the specification's, so that neither a reason nor a category
// is added, renamed or dropped in passing.
func TestClosedList(t *testing.T) {
	const (
		denied = "max_attempts budget_exhausted body_not_replayable response_already_delivered " +
			"runtime_draining deadline permanent_failure retry_after_too_long status_not_retryable " +
			"too_early credential_not_ours credential_rejected error_body_too_large retry_not_executed"
		ambiguous = "sent_no_response partial_response gateway_status invalid_status earlier_attempt no_evidence"
		permanent = "no_cluster no_route direct_response rejected_by_filter certificate request_invalid"
		evidence  = "UNKNOWN NOT_SENT SENT_NO_RESPONSE RESPONSE_RECEIVED PARTIAL_RESPONSE"
		verdicts  = "complete retry denied ambiguous"
	)
	for _, tc := range []struct{ name, got, want string }{
		{"reasons", join(Reasons()), denied + " " + ambiguous},
		{"permanent categories", join(PermanentCategories()), permanent},
		{"evidence", join(Evidences()), evidence},
		{"verdicts", join(Verdicts()), verdicts},
	} {
		if tc.got != tc.want {
			t.Errorf("%s are\n%s\nwant\n%s", tc.name, tc.got, tc.want)
		}
	}
}

func join[E interface{ String() string }](values []E) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = v.String()
	}
	return strings.Join(words, " ")
}

func TestWords(t *testing.T) {
	roundTrip(t, "Reason", reasonWords[:], ParseReason)
	roundTrip(t, "Verdict", verdictWords[:], ParseVerdict)
	roundTrip(t, "Evidence", evidenceWords[:], ParseEvidence)
	roundTrip(t, "Execution", executionWords[:], ParseExecution)
	roundTrip(t, "Idempotency", idempotencyWords[1:], ParseIdempotency)
	roundTrip(t, "Permanent", permanentWords[:], ParsePermanent)
	roundTrip(t, "Replayability", replayabilityWords[:], ParseReplayability)
	roundTrip(t, "Certainty", certaintyWords[:], ParseCertainty)
	roundTrip(t, "Delivery", deliveryWords[:], ParseDelivery)
	roundTrip(t, "BudgetState", budgetWords[:], ParseBudget)
	roundTrip(t, "RuntimeState", runtimeWords[:], ParseRuntime)
	roundTrip(t, "EarlyData", earlyDataWords[:], ParseEarlyData)
	roundTrip(t, "Credential", credentialWords[:], ParseCredential)
	roundTrip(t, "Jitter", jitterWords[:], ParseJitter)

	if i, ok := ParseIdempotency("unknown"); ok || i != IdempotencyUnknown {
		t.Errorf("ParseIdempotency(unknown) = %v, %t", i, ok)
	}
}

func roundTrip[E interface {
	~uint8
	String() string
}](t *testing.T, name string, words []string, parse func(string) (E, bool)) {
	t.Helper()
	for _, w := range words {
		if e, ok := parse(w); !ok || e.String() != w {
			t.Errorf("%s: %q parses as %v, %t", name, w, e, ok)
		}
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(words))); len(distinct) != len(words) {
		t.Errorf("%s: a word stands for two values: %q", name, words)
	}
	for _, s := range []string{"", "invalid", " " + words[1], words[1] + " ", swapCase(words[1])} {
		if e, ok := parse(s); ok || e != 0 {
			t.Errorf("%s: %q parses as %v, %t", name, s, e, ok)
		}
	}
	if got := E(255).String(); got != "invalid" {
		t.Errorf("%s: 255 is called %q", name, got)
	}
}

func swapCase(s string) string {
	if upper := strings.ToUpper(s); upper != s {
		return upper
	}
	return strings.ToLower(s)
}
