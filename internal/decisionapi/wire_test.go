package decisionapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// A wireMethod is one of the API's, as its schema has it.
type wireMethod struct {
	path    string
	input   protoreflect.MessageType
	streams bool
}

// wireMethods are all of retry.v1, in a fixed order.
func wireMethods(t testing.TB) (all []wireMethod) {
	t.Helper()
	protoregistry.GlobalFiles.RangeFilesByPackage("retry.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				input, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, wireMethod{fmt.Sprintf("/%s/%s", service.FullName(), m.Name()), input, m.IsStreamingServer()})
			}
		}
		return true
	})
	slices.SortFunc(all, func(a, b wireMethod) int { return strings.Compare(a.path, b.path) })
	if len(all) < 18 {
		t.Fatalf("only %d methods", len(all))
	}
	return all
}

// send sends bytes to a method over the wire. Of a stream it returns how the first answer comes out.
func (l *lab) send(ctx context.Context, m wireMethod, data []byte) error {
	if !m.streams {
		return l.conn.Invoke(ctx, m.path, data, nil, grpc.ForceCodecV2(rawCodec{}))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, m.path, grpc.ForceCodecV2(rawCodec{}))
	if err == nil {
		err = stream.SendMsg(data)
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return stream.RecvMsg(nil)
}

// wellFormedFor reports whether bytes are a message of the method's that the schema permits.
func (m wireMethod) wellFormedFor(data []byte) (message proto.Message, decoded, permitted bool) {
	message = m.input.New().Interface()
	if codec.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, message) != nil {
		return message, false, false
	}
	return message, true, validate(message) == nil
}

// wantRefused checks for INVALID_ARGUMENT with details, each of which names a field of the message; bytes
// that are no message have none to name.
func wantRefused(t *testing.T, m wireMethod, err error, decoded bool) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != codes.InvalidArgument || len(s.Details()) != 1 {
		t.Fatalf("%s: %v: %v", m.path, s.Code(), err)
	}
	bad, ok := s.Details()[0].(*errdetails.BadRequest)
	if !ok || len(bad.GetFieldViolations()) == 0 {
		t.Fatalf("%s: details %v", m.path, s.Details())
	}
	for _, v := range bad.GetFieldViolations() {
		if v.GetDescription() == "" || decoded && !names(m.input.Descriptor(), v.GetField()) {
			t.Errorf("%s: %q is no field of it: %s", m.path, v.GetField(), v.GetDescription())
		}
	}
}

// names reports whether a path such as facts.body.parts[1].kind leads to a field.
func names(d protoreflect.MessageDescriptor, path string) bool {
	for i, part := range strings.Split(path, ".") {
		if i > 0 && d == nil {
			return false
		}
		name, _, _ := strings.Cut(part, "[")
		field := d.Fields().ByName(protoreflect.Name(name))
		if field == nil {
			oneof := d.Oneofs().ByName(protoreflect.Name(name))
			return oneof != nil && i == strings.Count(path, ".")
		}
		d = field.Message()
	}
	return true
}

// FuzzBytes sends bytes to every method over the wire. What is no message, or none that the schema permits,
// is INVALID_ARGUMENT that names the field; what is permitted is never so.
func FuzzBytes(f *testing.F) {
	methods := wireMethods(f)
	l := newLab(f)
	for i, m := range methods {
		f.Add(uint8(i), []byte("\x0a\x02\x0a"))
		f.Add(uint8(i), []byte("\x0a\x01a"))
		f.Add(uint8(i), []byte("\x0a\x05\x0a\x01a\x10\x01"))
		f.Add(uint8(i), filled(f, m, 2))
	}
	f.Fuzz(func(t *testing.T, method uint8, data []byte) {
		m := methods[int(method)%len(methods)]
		message, decoded, permitted := m.wellFormedFor(data)
		limit := 20 * time.Second
		if m.streams && permitted {
			limit = 20 * time.Millisecond // it would never end
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		err := l.send(ctx, m, data)
		if !permitted {
			if err == nil {
				t.Fatalf("%s: answered %v", m.path, message)
			}
			wantRefused(t, m, err, decoded)
			return
		}
		switch code := status.Code(err); {
		case code == codes.OK, code == codes.NotFound, code == codes.ResourceExhausted, m.streams && code == codes.DeadlineExceeded:
		case code == codes.InvalidArgument && strings.Contains(err.Error(), "page_token"): // digits that are no number of a case
			wantRefused(t, m, err, decoded)
		default:
			t.Fatalf("%s: %v for %v", m.path, err, message)
		}
	})
}

// filled is a message with something in every field, down to a depth.
func filled(t testing.TB, m wireMethod, depth int) []byte {
	t.Helper()
	message := dynamicpb.NewMessage(m.input.Descriptor())
	fill(message, depth)
	data, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func fill(m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		switch {
		case field.IsMap():
		case field.IsList():
			list := m.Mutable(field).List()
			if field.Message() == nil {
				list.Append(some(field))
			} else if element := list.NewElement(); depth > 0 {
				fill(element.Message(), depth-1)
				list.Append(element)
			}
		case field.Message() != nil:
			if depth > 0 {
				fill(m.Mutable(field).Message(), depth-1)
			}
		default:
			m.Set(field, some(field))
		}
	}
}

func some(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("7")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{7})
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(2)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(7)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(7)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(7)
	}
	return field.Default()
}

// Every field of every method's message, at its worst: out of any range, or of another type.
func TestEveryFieldMalformed(t *testing.T) {
	l := newLab(t)
	refused := 0
	for _, m := range wireMethods(t) {
		for i := range m.input.Descriptor().Fields().Len() {
			field := m.input.Descriptor().Fields().Get(i)
			for _, data := range worst(field) {
				message, decoded, permitted := m.wellFormedFor(data)
				if permitted {
					continue
				}
				refused++
				err := l.send(within(t), m, data)
				if err == nil {
					t.Fatalf("%s: answered %v", m.path, message)
				}
				wantRefused(t, m, err, decoded)
			}
		}
	}
	if refused < 60 {
		t.Errorf("only %d were refused", refused)
	}
	// Nothing of that had an effect.
	drained, err := retryv1.NewAdminServiceClient(l.conn).GetDrained(within(t), &retryv1.GetDrainedRequest{})
	if err != nil || len(drained.GetUpstreams()) > 0 || drained.GetKillSwitch() != retryv1.KillSwitch_KILL_SWITCH_OFF {
		t.Errorf("%v, %v", drained, err)
	}
}

// worst are encodings of one field that a careless or hostile caller may send.
func worst(field protoreflect.FieldDescriptor) (all [][]byte) {
	tag := func(wireType byte) []byte {
		n := uint64(field.Number())<<3 | uint64(wireType)
		b := []byte{}
		for ; n >= 0x80; n >>= 7 {
			b = append(b, byte(n)|0x80)
		}
		return append(b, byte(n))
	}
	huge := strings.Repeat("x", 9000)
	length := "\xa8\x46" // 9000
	for _, wire := range []struct {
		kind byte
		data string
	}{
		{0, "\x00"}, {0, "\x7f"}, {0, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}, {0, "\xff\xff\xff\xff\x07"},
		{1, "\xff\xff\xff\xff\xff\xff\xff\x7f"}, {5, "\xff\xff\xff\xff"},
		{2, "\x00"}, {2, "\x01\xff"}, {2, "\x02\x08\x7f"}, {2, length + huge}, {2, "\x05\x0a\x03\x0a\x01\xff"}, {2, "\x7f"},
		{2, "\x0d\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\xff\x01"}, // a duration or a time that is none
		{3, ""}, {4, ""}, {7, ""},
	} {
		all = append(all, append(tag(wire.kind), wire.data...))
	}
	return all
}
