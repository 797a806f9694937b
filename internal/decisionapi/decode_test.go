package decisionapi

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// everyField returns requests that have, together, every field of the schema but the parts of a body.
func everyField() []*retryv1.DecideRequest {
	var all []*retryv1.DecideRequest
	for choice := range 6 { // 3 endings, 2 deadlines, 2 reaches
		m := new(retryv1.DecideRequest)
		fillAll(m.ProtoReflect(), choice)
		all = append(all, m)
	}
	return all
}

// fillAll sets all fields of m, and of each oneof one.
func fillAll(m protoreflect.Message, choice int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if o := f.ContainingOneof(); o != nil && o.Fields().Get(choice%o.Fields().Len()) != f || f.FullName() == "retry.v1.Body.parts" {
			continue
		}
		switch {
		case f.IsList():
			list := m.Mutable(f).List()
			for n := range 3 {
				if f.Message() != nil {
					fillAll(list.AppendMutable().Message(), choice)
				} else {
					list.Append(scalar(f, i+n))
				}
			}
		case f.Message() != nil:
			fillAll(m.Mutable(f).Message(), choice)
		default:
			m.Set(f, scalar(f, i))
		}
	}
}

// scalar takes one byte on the wire where n is even, and more where it is odd.
func scalar(f protoreflect.FieldDescriptor, n int) protoreflect.Value {
	large := n%2 == 1
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		if large {
			return protoreflect.ValueOfEnum(-1)
		}
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(-7)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(-1 << 40)
	case protoreflect.Uint32Kind:
		if large {
			return protoreflect.ValueOfUint32(1 << 31)
		}
		return protoreflect.ValueOfUint32(5)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1 << 63)
	}
	if large {
		return protoreflect.ValueOfString("größer")
	}
	return protoreflect.ValueOfString("x")
}

func onWire(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// wantSameRead: what decodePlain takes it reads as the standard decoder does.
func wantSameRead(t *testing.T, data []byte) (plain bool) {
	t.Helper()
	fast, slow := new(retryv1.DecideRequest), new(retryv1.DecideRequest)
	if !decodePlain(mem.BufferSlice{mem.SliceBuffer(data)}, fast) {
		return false
	}
	if err := proto.Unmarshal(data, slow); err != nil {
		t.Errorf("%q was taken; the standard decoder: %v", data, err)
	} else if !proto.Equal(fast, slow) {
		t.Errorf("%q was read as %v; by the standard decoder as %v", data, fast, slow)
	}
	return true
}

// A field that is new in the schema, and unknown to decodePlain, would be read by the slow way.
func TestPlainHasEveryField(t *testing.T) {
	for _, m := range append(everyField(), afterReset(), after503(), new(retryv1.DecideRequest)) {
		if !wantSameRead(t, onWire(t, m)) {
			t.Errorf("not plain: %v", m)
		}
	}
}

func TestPlainKeepsNoBytes(t *testing.T) {
	for _, want := range everyField() {
		data, got := onWire(t, want), new(retryv1.DecideRequest)
		if !decodePlain(mem.BufferSlice{mem.SliceBuffer(data)}, got) {
			t.Fatalf("not plain: %v", want)
		}
		clear(data) // as gRPC's next message into the same buffer would
		if !proto.Equal(got, want) {
			t.Errorf("changed with its bytes: %v", got)
		}
	}
}

// Every prefix of a message, and every message in which one byte is another one.
func TestPlainSpoilt(t *testing.T) {
	plain, strange := 0, 0
	for _, m := range append(everyField(), afterReset(), after503()) {
		data := onWire(t, m)
		for at, old := range data {
			spoilt := [][]byte{data[:at]}
			for _, b := range []byte{0, 0x7f, 0x80, 0xff, old ^ 1, old ^ 2, old ^ 4, old ^ 8, old ^ 0x10, old ^ 0x80} {
				changed := bytes.Clone(data)
				changed[at] = b
				spoilt = append(spoilt, changed)
			}
			for _, s := range spoilt {
				if wantSameRead(t, s) {
					plain++
				} else {
					strange++
				}
			}
		}
	}
	if plain < 1000 || strange < 1000 {
		t.Errorf("%d plain, %d strange: this tried nothing", plain, strange)
	}
}

// What is not plain is left to the standard decoder, through the codec that the servers have.
func TestPlainLeavesToStandard(t *testing.T) {
	request := onWire(t, after503())
	nested := &retryv1.Body{Parts: []*retryv1.Body{{Kind: retryv1.BodyKind_BODY_KIND_BYTES}}}
	for name, data := range map[string][]byte{
		"unknown field":       protowire.AppendVarint(protowire.AppendTag(bytes.Clone(request), 15, protowire.VarintType), 1),
		"unknown long tag":    protowire.AppendVarint(protowire.AppendTag(bytes.Clone(request), 1000, protowire.VarintType), 1),
		"two facts":           append(bytes.Clone(request), request...),
		"two endings":         onWireFacts("\x42\x04\x1a\x02\x08\x01" + "\x42\x04\x0a\x02\x18\x02"),
		"two in one ending":   onWireFacts("\x42\x08\x1a\x02\x08\x01\x1a\x02\x08\x02"),
		"two deadlines":       onWireFacts("\x62\x00\x5a\x00"),
		"bytes in empty":      onWireFacts("\x62\x02\x08\x01"),
		"body in body":        onWire(t, &retryv1.DecideRequest{Facts: &retryv1.Facts{Body: nested}}),
		"too long":            onWire(t, &retryv1.DecideRequest{RequestId: strings.Repeat("x", maxPlain)}),
		"not UTF-8":           []byte("\x1a\x01\xff"),
		"wrong wire type":     []byte("\x18\x01"),
		"group":               []byte("\x0b\x0c"),
		"field 0":             []byte("\x00\x00"),
		"tag beyond 32 bits":  []byte("\x8a\x80\x80\x80\x80\x01\x00"),
		"tag of two bytes":    []byte("\x8a\x00\x00"),
		"varint of 11 bytes":  []byte("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		"varint over 64 bits": []byte("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
		"length over the end": []byte("\x1a\x7f"),
		"length over int":     []byte("\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
	} {
		if wantSameRead(t, data) {
			t.Errorf("%s: plain", name)
		}
		got, want := new(retryv1.DecideRequest), new(retryv1.DecideRequest)
		err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, got)
		if err == nil {
			err = codec.failure(got, nil)
		}
		wantErr := proto.Unmarshal(data, want)
		if (err == nil) != (wantErr == nil) || err == nil && !proto.Equal(got, want) {
			t.Errorf("%s: %v, %v; standard %v, %v", name, got, err, want, wantErr)
		}
	}
	if n := codec.kept.Load(); n != 0 {
		t.Errorf("%d failures were not asked for", n)
	}
}

func onWireFacts(fields string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), fields)
}

func FuzzPlain(f *testing.F) {
	for _, m := range append(everyField(), afterReset(), after503()) {
		f.Add(onWire(f, m))
	}
	f.Fuzz(func(t *testing.T, data []byte) { wantSameRead(t, data) })
}
