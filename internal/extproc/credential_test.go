package extproc

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/verdictproxy/verdict/internal/evidence"
)

// TestCredentialStreamNeverEndsInOrderUnanswered: Envoy would send the attempt, with what it carried before.
func TestCredentialStreamNeverEndsInOrderUnanswered(t *testing.T) {
	trailers := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocv3.HttpTrailers{}}}
	for name, test := range map[string]struct {
		first *extprocv3.ProcessingRequest
		want  codes.Code
	}{
		"closed at once":               {nil, codes.Unavailable},
		"closed after another message": {trailers, codes.Unavailable},
		"closed after its answer":      {showRequest([]string{"cluster=app", "x-envoy-attempt-count=2"}), codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, "", func(t *testing.T, l *lab) {
				l.source = newScriptedSource(t, nil)
				l.Credentials = l.credentials
				e := l.open(t, judgeMetadata(evidence.MetadataRole, "credential"))
				e.mayRefuse = true
				if test.first != nil {
					if a := e.send(test.first); a.err != nil {
						t.Fatal(a.err)
					}
				}
				if err := e.stream.CloseSend(); err != nil {
					t.Fatal(err)
				}
				_, err := e.stream.Recv()
				if err == io.EOF {
					err = nil
				}
				if status.Code(err) != test.want {
					t.Errorf("the stream ends with %v, want %v", err, test.want)
				}
			})
		})
	}
}

// TestCredentialDoesNotShow: neither in the log, at any level, nor to whoever prints what the judge holds.
func TestCredentialDoesNotShow(t *testing.T) {
	inLab(t, "", func(t *testing.T, l *lab) {
		l.Log = slog.New(slog.NewTextHandler(&l.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		l.source = newScriptedSource(t, []string{"latest=SECRET", "marks=MARK"})
		l.Credentials = l.credentials
		setter := l.open(t, judgeMetadata(evidence.MetadataRole, "credential"))
		setter.mayRefuse = true
		if a := setter.send(showRequest([]string{"cluster=app", "x-envoy-attempt-count=2"})); a.set[evidence.Authorization] != "Bearer SECRET" || a.set[evidence.Mark] != "MARK" {
			t.Errorf("set %v", a.set)
		}
		setter.close()
		for _, refused := range []string{"token=SECRET", "token=SECRET1"} {
			judge := l.open(t, judgeMetadata())
			if a := judge.send(showHeaders([]string{"status=401", "method=GET", "mark=MARK", refused, "end"})); a.err != nil {
				t.Error(a.err)
			}
			judge.close()
		}
		carried := evidence.Credential{Authorization: "Bearer SECRET", Mark: "MARK"}
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			fmt.Fprintf(&l.log, format+" "+format, carried, &carried)
		}
		l.Log.Info("", "credential", carried)
		if shown := l.log.String(); strings.Count(shown, "msg=decided") != 2 || strings.Contains(shown, "SECRET") || strings.Contains(shown, "MARK") {
			t.Errorf("the log is %s", shown)
		}
	})
}

// TestBrokenReplay: a replay that could not be said was not, so its token goes back; what comes before the
// token costs none.
func TestBrokenReplay(t *testing.T) {
	rejected := showHeaders([]string{"status=401", "method=GET", "token=T1", "end"})
	for broken, want := range [][]string{{"grant app"}, nil, {"grant app", "return app"}} {
		inLab(t, "", func(t *testing.T, l *lab) {
			l.source = newScriptedSource(t, []string{"refresh=T2"})
			l.Credentials = l.credentials
			s, err := l.process(judgeMetadata(), broken, proto.CloneOf(rejected))
			if (err != nil) != (broken > 0) {
				t.Errorf("message %d is broken: %v", broken, err)
			}
			if len(s.out) > 2 {
				t.Errorf("%d messages", len(s.out))
			}
			l.wantEvents(t, want...)
		})
	}
}
