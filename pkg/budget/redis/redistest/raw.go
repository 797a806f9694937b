package redistest

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// Raw is a connection beside those that are tested, for what a person may do to a server.
type Raw struct {
	t      testing.TB
	client rueidis.Client
}

// Dial connects until the test ends.
func Dial(t testing.TB, address string) Raw {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address}, DisableCache: true, ForceSingleClient: true, DisableRetry: true, PipelineMultiplex: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return Raw{t, c}
}

// Do sends a command and returns its reply, nil for none; an error ends the test.
func (r Raw) Do(words ...string) any {
	r.t.Helper()
	v, err := r.Try(words...)
	if err != nil {
		r.t.Fatalf("%.200q: %v", words, err)
	}
	return v
}

// Try is Do that returns the error.
func (r Raw) Try(words ...string) (any, error) {
	v, err := r.client.Do(context.Background(), r.client.B().Arbitrary(words...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return v, err
}

// RunID is the one of the server.
func (r Raw) RunID() string {
	r.t.Helper()
	_, id, _ := strings.Cut(r.Do("INFO", "server").(string), "run_id:")
	id, _, _ = strings.Cut(id, "\r")
	return id
}
