package extproc

import (
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

func parseLimits(md metadata.MD) (limits, error) {
	l := limits{replay: -1, keyHeader: defaultKeyHeader, maxHeaders: defaultMaxHeaders}
	if key, err := single(md, evidence.MetadataKeyHeader); err != nil {
		return limits{}, err
	} else if key != "" {
		l.keyHeader = key
	}
	for _, field := range []struct {
		name string
		set  func(int64)
	}{
		{evidence.MetadataReplayLimit, func(n int64) { l.replay = n }},
		{evidence.MetadataRetries, func(n int64) { l.retries = int(min(n, 1<<20)) }},
		{evidence.MetadataMaxHeaders, func(n int64) { l.maxHeaders = int(min(n, 1<<20)) }},
		{evidence.MetadataMaxWait, func(n int64) { l.setMaxWait(time.Duration(n) * time.Millisecond) }},
	} {
		text, err := single(md, field.name)
		if err != nil {
			return limits{}, err
		}
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > maxNumber {
			return limits{}, fmt.Errorf("stream metadata %s: %q is not a whole number from 0 to %d", field.name, text, int64(maxNumber))
		}
		field.set(n)
	}
	return l, nil
}

// setMaxWait keeps part of Envoy's max_message_timeout as slack: the answer must be there before the
// timeout ends, on a loaded machine too. Message timeouts of 200 ms failed open under load, 500 ms did
// not.
func (l *limits) setMaxWait(timeout time.Duration) {
	l.slack = min(time.Second, timeout/4)
	l.maxWait = timeout - l.slack
}

// single returns the one value of key, "" where there is none.
func single(md metadata.MD, key string) (string, error) {
	switch values := md.Get(key); len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	default:
		return "", fmt.Errorf("stream metadata %s: given %d times", key, len(values))
	}
}
