package extproc

import (
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/verdictproxy/verdict/internal/evidence"
)

// frame puts messages behind each other, each behind its length.
func frame(f *testing.F, messages ...*extprocv3.ProcessingRequest) []byte {
	var data []byte
	for _, m := range messages {
		wire, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		data = binary.AppendUvarint(data, uint64(len(wire)))
		data = append(data, wire...)
	}
	return data
}

// unframe drops what is no message.
func unframe(data []byte) (messages []*extprocv3.ProcessingRequest) {
	for len(data) > 0 && len(messages) < 20 {
		n, used := binary.Uvarint(data)
		if used <= 0 || n > uint64(len(data)-used) {
			return messages
		}
		var m extprocv3.ProcessingRequest
		if proto.Unmarshal(data[used:used+int(n)], &m) == nil {
			messages = append(messages, &m)
		}
		data = data[used+int(n):]
	}
	return messages
}

// FuzzProcess serves whatever comes over the wire, under whatever metadata: it never panics, it always
// ends, each message has its answer, and a token is taken exactly for each retry that was said.
func FuzzProcess(f *testing.F) {
	refused := showHeaders([]string{"details=upstream_reset_before_response_started{overflow}", "sent=0"})
	get := showHeaders([]string{"method=GET"})
	body := showBody([]string{"end"})
	f.Add("judge", "1048576", "3", "12000", "200", frame(f, refused))
	f.Add("judge", "1048576", "3", "12000", "200", frame(f, get, body, body, refused))
	f.Add("finalizer", "", "x", "", "", frame(f, showHeaders([]string{"facts=none", "outer-details=response_timeout"})))
	f.Add("", "", "", "", "", frame(f, showRequest([]string{"end"}), showAnswer([]string{"details=via_upstream", "attempts=1"})))
	f.Add("judge", "1", "1", "1", "1", frame(f, everyKind()...))
	observed := proto.CloneOf(get)
	observed.ObservabilityMode = true
	f.Add("judge", "1048576", "3", "12000", "200", frame(f, observed, body))
	rejected := showHeaders([]string{"status=401", "method=GET", "token=T1", "end"})
	f.Add("judge", "1048576", "3", "12000", "200", frame(f, rejected))
	f.Add("judge", "1048576", "3", "12000", "200", frame(f, showHeaders([]string{"status=401", "method=GET", "token=T9", "mark=M"}), body))
	attempt := showRequest([]string{"cluster=app", "x-envoy-attempt-count=2"})
	f.Add("credential", "", "", "2000", "", frame(f, attempt))
	f.Add("credential", "", "", "", "", frame(f, body, attempt, showRequest([]string{"x-envoy-attempt-count=1"}), rejected))
	f.Add("x", "-1", "9223372036854775807", "1e9", "\xff", []byte{0x05, 0xff})
	f.Fuzz(func(t *testing.T, role, replay, retries, maxWait, maxHeaders string, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, "")
			l.source = newScriptedSource(t, []string{"latest=T1", "refresh=T2", "takes=10ms", "marks=M"})
			l.Credentials = l.credentials
			md := metadata.MD{}
			for key, value := range map[string]string{
				evidence.MetadataRole: role, evidence.MetadataReplayLimit: replay, evidence.MetadataRetries: retries,
				evidence.MetadataMaxWait: maxWait, evidence.MetadataMaxHeaders: maxHeaders,
			} {
				if value != "" {
					md.Set(key, value)
				}
			}
			in := unframe(data)
			s, err := l.process(md, 0, in...)
			unanswered := role == "credential" && status.Code(err) == codes.Unavailable
			if err != nil && status.Code(err) != codes.InvalidArgument && !unanswered {
				t.Errorf("the stream ends with %v", err)
			}
			said, answers := 0, 0
			for _, resp := range s.out {
				if _, err := proto.Marshal(resp); err != nil {
					t.Errorf("%v cannot be sent: %v", resp, err)
				}
				if resp.GetResponse() != nil {
					answers++
				}
				if retryIn(resp) {
					said++
				}
			}
			waited := 0
			for _, req := range in {
				if req.GetRequest() != nil && !req.GetObservabilityMode() {
					waited++
				}
			}
			if answers > waited || (err == nil || unanswered) && answers != waited {
				t.Errorf("%d answers to %d messages", answers, waited)
			}
			for _, resp := range s.out {
				if text := resp.String(); role != "credential" && (strings.Contains(text, "Bearer T") || strings.Contains(text, evidence.Mark)) {
					t.Errorf("a stream of the role %q is told a credential: %s", role, text)
				}
			}
			if grants := strings.Count(l.events.String(), `"event":"grant"`); grants != said {
				t.Errorf("%d tokens for %d retries", grants, said)
			}
		})
	})
}

// retryIn says that a response tells somebody to send the request again: router A, or whoever reads a
// plain stream's report.
func retryIn(resp *extprocv3.ProcessingResponse) bool {
	for _, common := range []*extprocv3.CommonResponse{resp.GetResponseHeaders().GetResponse(), resp.GetResponseBody().GetResponse()} {
		for _, o := range common.GetHeaderMutation().GetSetHeaders() {
			key, value := o.GetHeader().GetKey(), string(o.GetHeader().GetRawValue())
			if key == evidence.Control || key == evidence.ReportVerdict && value == "retry" {
				return true
			}
		}
	}
	return false
}
