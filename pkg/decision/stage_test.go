package decision

import "testing"

// TestStageEvidence: only the six stages that prove it give NOT_SENT; a stage that does not exist is
// a generic failure.
func TestStageEvidence(t *testing.T) {
	want := map[Stage]Evidence{
		StageProfileRejection: NotSent,
		StagePoolTimeout:      NotSent,
		StageDNS:              NotSent,
		StageConnect:          NotSent,
		StageTLS:              NotSent,
		StageRefusedStream:    NotSent,
		StageResponseBody:     PartialResponse,
	}
	for i := range 256 {
		expected, special := want[Stage(i)]
		if !special {
			expected = SentNoResponse
		}
		if got := Stage(i).Evidence(); got != expected {
			t.Errorf("stage %d proves %s, want %s", i, got, expected)
		}
	}
}
