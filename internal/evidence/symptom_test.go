package evidence

import (
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/decision"
)

func TestSymptom(t *testing.T) {
	const unknown = -1
	for _, c := range []struct {
		symptom   Symptom
		evidence  decision.Evidence
		permanent decision.Permanent
		why       string
	}{
		{Symptom{"via_upstream", "", 100, 1}, decision.ResponseReceived, decision.PermanentNone, "itself answered"},
		{Symptom{"upstream_reset_before_response_started{connection_timeout}", "", 0, 1}, decision.NotSent, decision.PermanentNone, "before a byte"},
		{Symptom{"upstream_reset_before_response_started{connection_timeout}", "", 0, 2}, decision.SentNoResponse, decision.PermanentNone, "tries: 2"},
		{Symptom{"upstream_reset_before_response_started{connection_timeout}", "", unknown, 1}, decision.SentNoResponse, decision.PermanentNone, "bytes written: unknown"},
		{Symptom{"upstream_reset_before_response_started{remote_connection_failure|TLS_error:x}", "CERTIFICATE_VERIFY_FAILED", 0, 1}, decision.NotSent, decision.Certificate, "before a byte"},
		{Symptom{"upstream_reset_before_response_started{remote_refused_stream_reset}", "", 90, 1}, decision.NotSent, decision.PermanentNone, "not processed"},
		{Symptom{"upstream_reset_before_response_started{remote_refused_stream_reset}", "", 90, unknown}, decision.SentNoResponse, decision.PermanentNone, "tries: unknown"},
		{Symptom{"route_not_found", "", 0, 0}, decision.NotSent, decision.NoRoute, "on its way in"},
		{Symptom{"route_not_found", "", unknown, unknown}, decision.SentNoResponse, decision.PermanentNone, "exactly 0 tries"},
		{Symptom{"upstream_reset_after_response_started{connection_termination}", "", 90, 1}, decision.PartialResponse, decision.PermanentNone, "cut off"},
		{Symptom{"upstream_response_timeout", "", 0, 1}, decision.SentNoResponse, decision.PermanentNone, "at any time"},
		{Symptom{"ext_proc_error", "", 0, 0}, decision.SentNoResponse, decision.PermanentNone, "filter"},
		{Symptom{"made_up", "", 0, 1}, decision.SentNoResponse, decision.PermanentNone, "not known"},
		{Symptom{"", "", 0, 1}, decision.SentNoResponse, decision.PermanentNone, "without Envoy's details"},
	} {
		e, permanent, why := c.symptom.Classify()
		if e != c.evidence || permanent != c.permanent || !strings.Contains(why, c.why) {
			t.Errorf("%+v: %v, %v, %q", c.symptom, e, permanent, why)
		}
	}
}
