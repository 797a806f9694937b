package decisionapi

import (
	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// The API's enums have the numbers of package decision's, so that a conversion is one: enums_test.go
// compares every word. The two below differ by one, because there the zero value is a known one.

func runtimeState(r retryv1.Runtime) decision.RuntimeState {
	if r == retryv1.Runtime_RUNTIME_DRAINING {
		return decision.RuntimeDraining
	}
	return decision.RuntimeServing
}

func credential(c retryv1.Credential) decision.Credential {
	if c == retryv1.Credential_CREDENTIAL_UNSPECIFIED {
		return decision.CredentialNotOurs
	}
	return decision.Credential(c - retryv1.Credential_CREDENTIAL_NOT_OURS)
}

func certainty(uncertain bool) retryv1.Certainty {
	if uncertain {
		return retryv1.Certainty_CERTAINTY_UNCERTAIN
	}
	return retryv1.Certainty_CERTAINTY_CERTAIN
}
