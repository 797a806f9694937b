package evidence

import (
	"log/slog"

	"google.golang.org/protobuf/types/known/structpb"
)

// Credential is what an attempt carried to say who sends it. It does not show itself to whoever prints
// it.
type Credential struct {
	// Authorization is the request header's value, several lines joined by a comma; "" where there was
	// none, or Envoy was not asked for it.
	Authorization string
	// Mark is what a replica of Verdict has put beside a credential that it has set, or "".
	Mark string
}

const hidden = "(credential)"

func (Credential) String() string       { return hidden }
func (Credential) GoString() string     { return hidden }
func (Credential) LogValue() slog.Value { return slog.StringValue(hidden) }

// CredentialOf reads the attributes that the judge asks for where upstreams have a credential source.
func CredentialOf(attributes map[string]*structpb.Struct) Credential {
	fields := attributes[attributesBundle].GetFields()
	return Credential{
		Authorization: fields["request.headers['"+Authorization+"']"].GetStringValue(),
		Mark:          present(fields["filter_state['"+markState+"']"].GetStringValue()),
	}
}

// ClusterAttribute is the cluster that Envoy has chosen for the request, or "".
func ClusterAttribute(attributes map[string]*structpb.Struct) string {
	return attributes[attributesBundle].GetFields()[attributeCluster].GetStringValue()
}

// FirstAttempt reports whether the request headers of the inner hop are those of attempt 1, by router A's
// word. What cannot be read is not the first.
func FirstAttempt(request Headers) bool { return request.value(headerAttempt) == "1" }
