package extproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/verdictproxy/verdict/internal/evidence"
)

// limits is what only Envoy's configuration knows; it travels in the stream's initial metadata. What
// is missing permits nothing: no replay, no retry, no wait.
type limits struct {
	replay    int64 // bytes of request body that router A keeps; -1 is not known
	retries   int   // retries that router A would do
	maxWait   time.Duration
	slack     time.Duration
	keyHeader string
	// maxHeaders is how many header lines Envoy accepts on the answer that is judged.
	maxHeaders int
}

// defaultMaxHeaders is Envoy's default max_headers_count.
const defaultMaxHeaders = 100

const defaultKeyHeader = "idempotency-key"

// maxNumber bounds every number in the metadata: no setting of Envoy that is meant here is larger.
const maxNumber = 1 << 40

func parseLimits(ctx context.Context) (limits, error) {
	replay, err1 := wholeNumber(ctx, evidence.MetadataReplayLimit, -1)
	retries, err2 := wholeNumber(ctx, evidence.MetadataRetries, 0)
	maxWait, err3 := wholeNumber(ctx, evidence.MetadataMaxWait, 0)
	maxHeaders, err4 := wholeNumber(ctx, evidence.MetadataMaxHeaders, defaultMaxHeaders)
	keyHeader, err5 := single(ctx, evidence.MetadataKeyHeader)
	l := limits{
		replay:     replay,
		retries:    int(min(retries, 1<<20)),
		keyHeader:  cmp.Or(keyHeader, defaultKeyHeader),
		maxHeaders: int(min(maxHeaders, 1<<20)),
	}
	l.setMaxWait(time.Duration(maxWait) * time.Millisecond)
	return l, errors.Join(err1, err2, err3, err4, err5)
}

// wholeNumber reads a whole number from 0 to maxNumber.
func wholeNumber(ctx context.Context, key string, absent int64) (int64, error) {
	text, err := single(ctx, key)
	if err != nil || text == "" {
		return absent, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxNumber {
		return absent, fmt.Errorf("stream metadata %s: %q is not a whole number from 0 to %d", key, text, int64(maxNumber))
	}
	return n, nil
}

// setMaxWait keeps part of Envoy's max_message_timeout as slack: the answer must be there before the
// timeout ends, on a loaded machine too. Message timeouts of 200 ms failed open under load, 500 ms did
// not.
func (l *limits) setMaxWait(timeout time.Duration) {
	l.slack = min(time.Second, timeout/4)
	l.maxWait = timeout - l.slack
}

// single returns the one value of key in the stream's metadata, "" where there is none.
func single(ctx context.Context, key string) (string, error) {
	switch values := metadata.ValueFromIncomingContext(ctx, key); len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	default:
		return "", fmt.Errorf("stream metadata %s: given %d times", key, len(values))
	}
}
