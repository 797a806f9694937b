package decisionapi

import (
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// maxPlain is the longest plain request in bytes. Its strings share one copy of them, so it is also how much
// memory each string that is kept can hold.
const maxPlain = 512

// decodePlain reads into an empty m what nearly all callers send, in less than half the time of the standard
// decoder. It reports false, and leaves m in any state, for all else: bytes that are no message, fields that
// are unknown, messages that are there twice, bodies in bodies. About those the standard decoder has the
// word; a fuzz test holds that it reads the others in the same way.
func decodePlain(data mem.BufferSlice, m *retryv1.DecideRequest) bool {
	if len(data) != 1 || data.Len() > maxPlain {
		return false
	}
	raw := data[0].ReadOnlyData()
	r := plainReader{data: raw, text: string(raw)}
	r.request(m, len(raw))
	return !r.odd
}

// plainRequest is what most requests consist of, which comes and goes together.
type plainRequest struct {
	facts     retryv1.Facts
	call      retryv1.Call
	body      retryv1.Body
	ending    retryv1.Ending
	deadline  retryv1.Facts_Remaining
	remaining durationpb.Duration
}

// plainReader reads fields from at on. Each method reads until end, the end of its message.
type plainReader struct {
	data []byte
	text string // the same bytes
	at   int
	odd  bool // and at is the end
}

const (
	wireVarint = int(protowire.VarintType)
	wireBytes  = int(protowire.BytesType)
)

// strange gives up.
func (r *plainReader) strange() {
	r.odd, r.at = true, len(r.data)
}

// once gives up where a message is there for the second time, which merges the two.
func (r *plainReader) once(first bool) {
	if !first {
		r.strange()
	}
}

// tag returns a field's number<<3 | wire type. All of the schema's take one byte.
func (r *plainReader) tag() int {
	tag := r.data[r.at]
	r.at++
	return int(tag) // no case where there are more bytes
}

func (r *plainReader) number(end int) uint64 {
	if r.at < end && r.data[r.at] < 0x80 {
		v := r.data[r.at]
		r.at++
		return uint64(v)
	}
	if r.at >= end {
		r.strange()
		return 0
	}
	v, n := protowire.ConsumeVarint(r.data[r.at:end])
	if n < 0 {
		r.strange()
		return 0
	}
	r.at += n
	return v
}

// part returns where a message or string ends of which the length comes next.
func (r *plainReader) part(end int) int {
	n := r.number(end)
	if r.odd || n > uint64(end-r.at) {
		r.strange()
		return r.at
	}
	return r.at + int(n)
}

func (r *plainReader) string(end int) string {
	to := r.part(end)
	s := r.text[r.at:to]
	if !utf8.ValidString(s) {
		r.strange()
		return ""
	}
	r.at = to
	return s
}

func (r *plainReader) request(m *retryv1.DecideRequest, end int) {
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireBytes:
			r.once(m.Facts == nil)
			p := new(plainRequest)
			m.Facts = &p.facts
			r.facts(p, r.part(end))
		case 2<<3 | wireVarint:
			m.DryRun = protowire.DecodeBool(r.number(end))
		case 3<<3 | wireBytes:
			m.RequestId = r.string(end)
		default:
			r.strange()
		}
	}
}

func (r *plainReader) facts(p *plainRequest, end int) {
	m := &p.facts
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireBytes:
			m.Upstream = r.string(end)
		case 2<<3 | wireBytes:
			r.once(m.Call == nil)
			m.Call = &p.call
			r.call(m.Call, r.part(end))
		case 3<<3 | wireBytes:
			r.once(m.Body == nil)
			m.Body = &p.body
			r.body(m.Body, r.part(end))
		case 4<<3 | wireVarint:
			m.EarlyData = retryv1.EarlyData(r.number(end))
		case 5<<3 | wireVarint:
			m.Attempt = uint32(r.number(end))
		case 6<<3 | wireBytes:
			r.once(m.Earlier == nil)
			m.Earlier = new(retryv1.Earlier)
			r.earlier(m.Earlier, r.part(end))
		case 7<<3 | wireBytes:
			r.once(m.PreviousWait == nil)
			m.PreviousWait = new(durationpb.Duration)
			r.duration(m.PreviousWait, r.part(end))
		case 8<<3 | wireBytes:
			r.once(m.Ending == nil)
			m.Ending = &p.ending
			r.ending(m.Ending, r.part(end))
		case 9<<3 | wireVarint:
			m.Delivery = retryv1.Delivery(r.number(end))
		case 10<<3 | wireVarint:
			m.Credential = retryv1.Credential(r.number(end))
		case 11<<3 | wireBytes:
			r.once(m.Deadline == nil)
			p.deadline.Remaining = &p.remaining
			m.Deadline = &p.deadline
			r.duration(&p.remaining, r.part(end))
		case 12<<3 | wireBytes:
			r.once(m.Deadline == nil && r.number(end) == 0)
			m.Deadline = &retryv1.Facts_NoDeadline{NoDeadline: new(emptypb.Empty)}
		case 13<<3 | wireBytes:
			r.once(m.MaxWait == nil)
			m.MaxWait = new(durationpb.Duration)
			r.duration(m.MaxWait, r.part(end))
		case 14<<3 | wireVarint:
			m.Runtime = retryv1.Runtime(r.number(end))
		default:
			r.strange()
		}
	}
}

func (r *plainReader) call(m *retryv1.Call, end int) {
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireBytes:
			m.Method = r.string(end)
		case 2<<3 | wireBytes:
			m.Path = r.string(end)
		case 3<<3 | wireBytes:
			m.RouteOperation = r.string(end)
		case 4<<3 | wireVarint:
			m.Idempotency = retryv1.Idempotency(r.number(end))
		case 5<<3 | wireBytes:
			m.IdempotencyKeys = append(m.IdempotencyKeys, r.string(end))
		default:
			r.strange()
		}
	}
}

func (r *plainReader) body(m *retryv1.Body, end int) {
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireVarint:
			m.Kind = retryv1.BodyKind(r.number(end))
		case 2<<3 | wireVarint:
			m.Declared = retryv1.Replayability(r.number(end))
		default:
			r.strange()
		}
	}
}

func (r *plainReader) earlier(m *retryv1.Earlier, end int) {
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireVarint:
			m.Execution = retryv1.Execution(r.number(end))
		case 2<<3 | wireVarint:
			m.Certainty = retryv1.Certainty(r.number(end))
		default:
			r.strange()
		}
	}
}

func (r *plainReader) duration(m *durationpb.Duration, end int) {
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireVarint:
			m.Seconds = int64(r.number(end))
		case 2<<3 | wireVarint:
			m.Nanos = int32(r.number(end))
		default:
			r.strange()
		}
	}
}
