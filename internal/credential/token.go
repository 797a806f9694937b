package credential

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"time"
)

// maxToken bounds a token, in bytes. Envoy's default limit for all request headers is 60 KiB.
const maxToken = 16 << 10

// secret is text that no printing shows: fmt does not call methods of unexported fields, but does not
// follow a pointer in a field either.
type secret struct{ text *string }

const redacted = "[redacted]"

func newSecret(text string) secret { return secret{&text} }

func (s secret) String() string               { return redacted }
func (s secret) GoString() string             { return redacted }
func (s secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (s secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// digest stands for an authorization value that is not kept.
type digest [sha256.Size]byte

func newDigest(authorization string) digest { return sha256.Sum256([]byte(authorization)) }

// equal takes the same time whatever the answer.
func (d digest) equal(other digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }

// token is one issued credential.
type token struct {
	authorization secret
	digest        digest
	issued        time.Time
	renew         time.Time // from here on a use has it replaced in the background
	expires       time.Time // from here on it is not handed out
}

func (t *token) usable(now time.Time) bool { return t != nil && now.Before(t.expires) }

func (t *token) is(d digest) bool { return t != nil && t.digest.equal(d) }

// checkToken accepts what is one member of one header's value. RFC 6750 has fewer characters; some
// endpoints issue others.
func checkToken(text string) error {
	switch {
	case text == "":
		return failed(resultInvalid, "the token is empty")
	case len(text) > maxToken:
		return failed(resultInvalid, "the token has more than %d bytes", maxToken)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == ',' {
			return failed(resultInvalid, "the token has a character that does not belong in a header")
		}
	}
	return nil
}
