package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/test/stack"
)

// together plays all cases at once: those that wait are not to wait for each other, and t.Parallel
// plays no more of them at once than there are processors.
func together[C any](cases []C, play func(C)) {
	var playing sync.WaitGroup
	for _, c := range cases {
		playing.Go(func() { play(c) })
	}
	playing.Wait()
}

// A tokenLog is the event log of a service's budget.
type tokenLog struct{ file string }

// withTokenLog adds the event log to the service's options.
func withTokenLog(t *testing.T, o *stack.Options) tokenLog {
	log := tokenLog{filepath.Join(t.TempDir(), "events.ndjson")}
	o.ExtprocArgs = append(o.ExtprocArgs, "--event-log", log.file)
	return log
}

// tokens counts the retries that the budget of an upstream has granted, and those that were given back.
func (l tokenLog) tokens(t *testing.T, upstream string) (granted, returned int) {
	t.Helper()
	text, err := os.ReadFile(l.file)
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for line := range bytes.Lines(text) {
		var e budget.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.Account != upstream {
			continue
		}
		switch e.Kind {
		case budget.KindGrant:
			granted++
			open[e.Grant] = true
		case budget.KindReturn:
			returned++
			if !open[e.Grant] {
				t.Errorf("grant %q was given back, and was not there", e.Grant)
			}
			delete(open, e.Grant)
		}
	}
	return granted, returned
}

func (l tokenLog) want(t *testing.T, upstream string, granted, returned int) {
	t.Helper()
	if g, r := l.tokens(t, upstream); g != granted || r != returned {
		t.Errorf("%s: %d tokens granted and %d given back, want %d and %d", upstream, g, r, granted, returned)
	}
}

// speaksHTTP2 makes a cluster like app speak HTTP/2, as app-h2 does.
func speaksHTTP2(cluster string) stack.Edit {
	return func(c *stack.Config) error {
		options, err := c.Get(stack.Cluster("app-h2") + "/typed_extension_protocol_options")
		if err != nil {
			return err
		}
		at, err := c.Get(stack.Cluster(cluster))
		if err != nil {
			return err
		}
		at.(map[string]any)["typed_extension_protocol_options"] = options
		return nil
	}
}
