package decisionapi

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// wantWords compares an enum of the API with the words of the domain, from the number first on; zero is
// the domain's word for what the API leaves unspecified. invalid is the word behind the last one.
func wantWords[E ~uint8](t *testing.T, api protoreflect.EnumDescriptor, offset int, zero, invalid string) {
	t.Helper()
	prefix := strings.TrimSuffix(string(api.Values().ByNumber(0).Name()), "UNSPECIFIED")
	for i := range api.Values().Len() {
		v := api.Values().Get(i)
		got := strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
		if v.Number() == 0 && zero != "" {
			got = zero
		}
		n := int(v.Number()) - offset
		if n < 0 {
			continue
		}
		if want := strings.ToLower(fmt.Sprint(any(E(n)))); got != want {
			t.Errorf("%s is %d, which is %s to the domain", v.FullName(), v.Number(), want)
		}
	}
	if beyond := fmt.Sprint(any(E(api.Values().Len() - offset))); beyond != invalid {
		t.Errorf("%s lacks the domain's %s", api.FullName(), beyond)
	}
}

func TestEnums(t *testing.T) {
	const invalid = "invalid"
	wantWords[decision.Verdict](t, retryv1.Verdict(0).Descriptor(), 0, "none", invalid)
	wantWords[decision.Reason](t, retryv1.Reason(0).Descriptor(), 0, "none", invalid)
	wantWords[decision.Evidence](t, retryv1.Evidence(0).Descriptor(), 0, "unknown", invalid)
	wantWords[decision.Permanent](t, retryv1.PermanentCategory(0).Descriptor(), 0, "none", invalid)
	wantWords[decision.Execution](t, retryv1.Execution(0).Descriptor(), 0, "unknown", invalid)
	wantWords[decision.Certainty](t, retryv1.Certainty(0).Descriptor(), 0, "unknown", invalid)
	wantWords[decision.Idempotency](t, retryv1.Idempotency(0).Descriptor(), 0, "unknown", invalid)
	wantWords[decision.Replayability](t, retryv1.Replayability(0).Descriptor(), 0, "unknown", invalid)
	wantWords[decision.Delivery](t, retryv1.Delivery(0).Descriptor(), 0, "unknown", invalid)
	wantWords[decision.EarlyData](t, retryv1.EarlyData(0).Descriptor(), 0, "unknown", invalid)
	wantWords[decision.RuntimeState](t, retryv1.Runtime(0).Descriptor(), 1, "", invalid)
	wantWords[decision.Credential](t, retryv1.Credential(0).Descriptor(), 1, "", invalid)
	wantWords[budget.Source](t, retryv1.Source(0).Descriptor(), 0, "unknown", "Source(4)")

	// These have no words in the domain.
	for stage, want := range map[retryv1.Stage]decision.Stage{
		retryv1.Stage_STAGE_UNSPECIFIED: decision.StageUnknown, retryv1.Stage_STAGE_PROFILE_REJECTION: decision.StageProfileRejection,
		retryv1.Stage_STAGE_POOL_TIMEOUT: decision.StagePoolTimeout, retryv1.Stage_STAGE_DNS: decision.StageDNS,
		retryv1.Stage_STAGE_CONNECT: decision.StageConnect, retryv1.Stage_STAGE_TLS: decision.StageTLS,
		retryv1.Stage_STAGE_REFUSED_STREAM: decision.StageRefusedStream, retryv1.Stage_STAGE_REQUEST_WRITE: decision.StageRequestWrite,
		retryv1.Stage_STAGE_RESPONSE_HEADER_TIMEOUT: decision.StageResponseHeaderTimeout,
		retryv1.Stage_STAGE_CONNECTION_RESET:        decision.StageConnectionReset, retryv1.Stage_STAGE_RESPONSE_BODY: decision.StageResponseBody,
	} {
		if decision.Stage(stage) != want {
			t.Errorf("%v is %d to the domain", stage, want)
		}
	}
	for kind, want := range map[retryv1.BodyKind]decision.BodyKind{
		retryv1.BodyKind_BODY_KIND_UNSPECIFIED: decision.BodyUnknown, retryv1.BodyKind_BODY_KIND_NONE: decision.BodyNone,
		retryv1.BodyKind_BODY_KIND_BYTES: decision.BodyBytes, retryv1.BodyKind_BODY_KIND_CODEC: decision.BodyCodec,
		retryv1.BodyKind_BODY_KIND_FILE: decision.BodyFile, retryv1.BodyKind_BODY_KIND_SUPPLIER: decision.BodySupplier,
		retryv1.BodyKind_BODY_KIND_STREAM: decision.BodyStream, retryv1.BodyKind_BODY_KIND_PUBLISHER: decision.BodyPublisher,
		retryv1.BodyKind_BODY_KIND_PUBLISHER_FACTORY: decision.BodyPublisherFactory, retryv1.BodyKind_BODY_KIND_MULTIPART: decision.BodyMultipart,
	} {
		if decision.BodyKind(kind) != want {
			t.Errorf("%v is %d to the domain", kind, want)
		}
	}
}
