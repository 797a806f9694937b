package extproc

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/budget"
)

// TestScripts plays streams against the service, one line a message, and writes what Envoy is told.
//
//	config                              the YAML that holds from here on
//	judge, finalizer, credential, plain NAME=VALUE  a stream; its metadata x-verdict-NAME is changed, none removes it
//	  headers NAME=VALUE... [end]       the failing answer's headers; see showHeaders
//	  body [size=N] [end]               a piece of its body
//	  request NAME=VALUE... [end]       plain: a request; see showRequest
//	  answer NAME=VALUE... [end]        plain: its answer; see showAnswer
//	  trailers
//	  sleep DURATION
//	  source NAME=VALUE...              the credential source of the cluster app; see scriptedSource
//	  spend N                           somebody else takes N tokens of the cluster app
//	  drain DURATION                    the process begins to shut down
//	  cancel                            the stream breaks
//	  later DURATION COMMAND            cancel or drain, while the next message is being answered
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		yaml := ""
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "config":
				yaml = d.Input
				return ""
			case "judge", "finalizer", "credential", "plain":
				var out string
				synctest.Test(t, func(t *testing.T) { out = play(t, yaml, d) })
				return out
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

// play runs one stream's script.
func play(t *testing.T, yaml string, d *datadriven.TestData) string {
	l := newLab(t, yaml)
	replace := []string{evidence.MetadataRole, d.Cmd}
	switch d.Cmd {
	case "finalizer":
		replace = append(replace, evidence.MetadataMaxWait, "", evidence.MetadataMaxHeaders, "250")
	case "credential":
		replace = append(replace, evidence.MetadataReplayLimit, "", evidence.MetadataRetries, "", evidence.MetadataMaxWait, "2000", evidence.MetadataKeyHeader, "")
	case "plain": // an operator who knows nothing of the hop
		replace = []string{evidence.MetadataRole, "", evidence.MetadataReplayLimit, "", evidence.MetadataRetries, "", evidence.MetadataMaxWait, "", evidence.MetadataMaxHeaders, "", evidence.MetadataKeyHeader, ""}
	}
	for _, arg := range d.CmdArgs {
		replace = append(replace, "x-verdict-"+arg.Key, strings.ReplaceAll(strings.Join(arg.Vals, ""), "none", ""))
	}
	md := judgeMetadata(replace...)
	e := l.open(t, md)
	if d.Cmd != "judge" {
		e.allowModeOverride, e.allowEnvoy, e.maxHeaders = false, false, 100
	}
	if d.Cmd == "credential" {
		e.mayRefuse, e.messageTimeout = true, 2*time.Second
	}
	if n, err := strconv.Atoi(strings.Join(md.Get(evidence.MetadataMaxHeaders), "")); err == nil {
		e.maxHeaders = n
	}
	if n, err := strconv.Atoi(strings.Join(md.Get(evidence.MetadataMaxWait), "")); err == nil {
		e.maxMessageTimeout = time.Duration(n) * time.Millisecond
	}
	var out strings.Builder
	ended := false // then nobody closes the stream
	for line := range strings.Lines(d.Input) {
		fields := strings.Fields(line)
		var a answer
		switch verb, args := fields[0], fields[1:]; verb {
		case "headers":
			a = e.send(showHeaders(args))
		case "body":
			a = e.send(showBody(args))
		case "request":
			a = e.send(showRequest(args))
		case "answer":
			a = e.send(showAnswer(args))
		case "trailers":
			a = e.send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}}})
		case "source":
			l.source = newScriptedSource(t, args)
			l.Credentials = l.credentials
			continue
		case "sleep":
			time.Sleep(duration(t, args[0]))
			continue
		case "later":
			wait := duration(t, args[0])
			time.AfterFunc(wait, func() { l.happen(t, e, args[1:]) })
			continue
		default:
			l.happen(t, e, fields)
			ended = verb == "cancel"
			continue
		}
		fmt.Fprintf(&out, "%s: %s\n", fields[0], describe(a))
		if ended = a.err != nil; ended {
			break
		}
	}
	if !ended {
		e.close()
	}
	synctest.Wait()
	if events := l.budget(t); events != "" {
		fmt.Fprintf(&out, "budget: %s\n", events)
	}
	if l.source != nil && l.source.calls != nil {
		fmt.Fprintf(&out, "source: %s\n", strings.Join(l.source.calls, ", "))
	}
	return out.String()
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// happen is what goes on around a stream.
func (l *lab) happen(t *testing.T, e *envoy, command []string) {
	switch command[0] {
	case "cancel":
		e.cancel()
	case "drain":
		l.Drain.Begin(duration(t, command[1]))
	case "spend":
		n, _ := strconv.Atoi(command[1])
		for range n {
			l.Budget.Account("app").TryWithdraw(t.Context())
		}
	default:
		t.Errorf("unknown command %s", command[0])
	}
}

// budget is the event log in short; what somebody else spent beforehand is one word.
func (l *lab) budget(t *testing.T) string {
	var events []string
	for line := range strings.Lines(l.events.String()) {
		var e budget.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, string(e.Kind)+" "+e.Account)
	}
	if n := len(events); n > 20 {
		return fmt.Sprintf("%d events, the last is %s", n, events[n-1])
	}
	return strings.Join(events, ", ")
}

// describe says what an answer means to Envoy.
func describe(a answer) string {
	if a.err == io.EOF {
		return "the stream ends"
	}
	if a.err != nil {
		return status.Code(a.err).String() + ": " + status.Convert(a.err).Message()
	}
	set := maps.Clone(a.set)
	take := func(key string) string {
		v := set[key]
		delete(set, key)
		return v
	}
	var said []string
	if a.took > 0 {
		said = append(said, "after "+a.took.String())
	}
	if take(evidence.Control) == evidence.ControlRetry {
		said = append(said, "retry, else")
	}
	if a.asks {
		said = append(said, "give me the body")
	}
	if a.refused != "" {
		said = append(said, "refused: "+a.refused)
	}
	if verdict := take(evidence.ReportVerdict); verdict != "" && set[evidence.ReportReason] == "" {
		said = append(said, verdict)
	} else if verdict != "" {
		said = append(said, fmt.Sprintf("%s(%s) %s %s", verdict, take(evidence.ReportReason), take(evidence.ReportEvidence), take(evidence.ReportExecution)))
	}
	if attempts := take(evidence.ReportAttempts); attempts != "" {
		said = append(said, "attempts="+attempts)
	}
	if id := take(evidence.ReportAmbiguityID); id != "" {
		if len(id) == 26 {
			id = "a fresh id"
		}
		said = append(said, "uncertain: "+id)
	}
	if a.problem != "" {
		said = append(said, fmt.Sprintf("with a problem of %s", take("content-type")))
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		said = append(said, key+"="+set[key])
	}
	for _, key := range a.removed {
		said = append(said, "without "+key)
	}
	return cmp.Or(strings.Join(said, " "), "as it is")
}
