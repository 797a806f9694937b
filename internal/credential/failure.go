package credential

import (
	"errors"
	"fmt"
)

var (
	// ErrSameToken: the source gave the token again that was rejected.
	ErrSameToken = errors.New("the source gave the same token again")
	// ErrBackingOff: the last fetch or refresh was of no use, and the pause after it is not over. The error
	// wraps what happened then.
	ErrBackingOff = errors.New("not tried again so soon")
	// ErrClosed: the process ends.
	ErrClosed = errors.New("the credential sources are closed")
)

// The results of a fetch: metric label and log field, a closed list.
const (
	resultOK          = "ok"
	resultSameToken   = "same_token"
	resultUnreachable = "unreachable" // no connection, or one that broke
	resultCertificate = "certificate" // the endpoint's
	resultTimeout     = "timeout"
	resultRefused     = "refused" // an error status, or an OAuth error
	resultRedirect    = "redirect"
	resultTooLarge    = "too_large"
	resultInvalid     = "invalid" // an answer or a file without a usable token
	resultFile        = "file"    // one that cannot be read
)

// failure is why a fetch failed, in this package's own words.
type failure struct{ result, text string }

func (f *failure) Error() string { return f.text }

func failed(result, format string, args ...any) *failure {
	return &failure{result: result, text: fmt.Sprintf(format, args...)}
}

func resultOf(err error) string {
	var f *failure
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, ErrSameToken):
		return resultSameToken
	case errors.As(err, &f):
		return f.result
	}
	return resultInvalid
}
