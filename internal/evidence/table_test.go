package evidence

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// headers makes a header map as Envoy sends it, from keys and values in turn.
func headers(keysAndValues ...string) Headers {
	m := &corev3.HeaderMap{}
	for i := 0; i < len(keysAndValues); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: keysAndValues[i], RawValue: []byte(keysAndValues[i+1])})
	}
	return NewHeaders(m)
}

// lines reads "name: value" lines.
func lines(text string) Headers {
	var list []string
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		list = append(list, name, value)
	}
	return headers(list...)
}

// TestTable reads answers as Envoy 1.40.0 was seen to write them behind the filters of envoy/hop.yaml.
// facts is what the judge is shown, outer what the finalizer is.
func TestTable(t *testing.T) {
	for _, file := range []string{"facts.txt", "outer.txt"} {
		datadriven.RunTest(t, "testdata/"+file, func(t *testing.T, d *datadriven.TestData) string {
			var key string
			d.MaybeScanArgs(t, "key", &key)
			switch d.Cmd {
			case "facts":
				return describe(FromFacts(lines(d.Input), key))
			case "outer":
				return describe(FromOuter(lines(d.Input), key))
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	}
}

// describe writes what is known of an attempt, first what is proven.
func describe(a Attempt) string {
	var b strings.Builder
	b.WriteString(a.Evidence.String())
	if a.Permanent != decision.PermanentNone {
		fmt.Fprintf(&b, " permanent=%v", a.Permanent)
	}
	for _, flag := range []struct {
		set  bool
		name string
	}{{!a.Known, "no facts"}, {a.LocalReply, "local reply"}, {a.Redirected, "redirected"}, {a.Override, "override"}, {a.GRPC, "grpc"}, {a.EarlyData == decision.EarlyDataSent, "early data"}} {
		if flag.set {
			b.WriteString(", " + flag.name)
		}
	}
	fmt.Fprintf(&b, "\nstatus=%d attempt=%d %s %s", a.Status, a.Number, a.Method, a.Path)
	for _, field := range [][2]string{{"key", a.Key}, {"cluster", a.Cluster}, {"operation", a.Operation}, {"retry-after", strings.Join(a.RetryAfter, ",")}} {
		if field[1] != "" {
			fmt.Fprintf(&b, " %s=%s", field[0], field[1])
		}
	}
	fmt.Fprintf(&b, "\nbody received=%d announced=%d, deadline ", a.BodyReceived, a.BodyAnnounced)
	switch a.Deadline {
	case decision.DeadlineNone:
		b.WriteString("none")
	case decision.DeadlineKnown:
		b.WriteString(a.Remaining.String())
	default:
		b.WriteString("unknown")
	}
	if a.ID == "" {
		b.WriteString(", no id")
	}
	return b.String() + "\n"
}
