package evidence

import (
	"cmp"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Headers reads a header map as Envoy sends it: lower-case keys, values in raw_value.
type Headers struct{ list []*corev3.HeaderValue }

// NewHeaders wraps a header map; nil is an empty one.
func NewHeaders(m *corev3.HeaderMap) Headers { return Headers{m.GetHeaders()} }

// Len counts the header lines, pseudo-headers included.
func (h Headers) Len() int { return len(h.list) }

// Bytes sums the lengths of all keys and values.
func (h Headers) Bytes() int {
	n := 0
	for _, v := range h.list {
		n += len(v.GetKey()) + cmp.Or(len(v.GetRawValue()), len(v.GetValue()))
	}
	return n
}

// Values returns every line of the header, in order.
func (h Headers) Values(key string) []string {
	var lines []string
	for _, v := range h.list {
		if v.GetKey() == key {
			lines = append(lines, valueOf(v))
		}
	}
	return lines
}

// Has reports whether there is such a header, even an empty one.
func (h Headers) Has(key string) bool {
	for _, v := range h.list {
		if v.GetKey() == key {
			return true
		}
	}
	return false
}

// ContentLength is how long the body is said to be, or -1 where that is not said, or not clearly.
func (h Headers) ContentLength() int64 { return parseCount(h.value(headerLength)) }

// one returns the value of a header of which there must be exactly one line.
func (h Headers) one(key string) (string, bool) {
	value, found := "", false
	for _, v := range h.list {
		if v.GetKey() != key {
			continue
		}
		if found {
			return "", false
		}
		value, found = valueOf(v), true
	}
	return value, found
}

// value is one, with the empty string for none or several.
func (h Headers) value(key string) string {
	v, _ := h.one(key)
	return v
}

func valueOf(v *corev3.HeaderValue) string {
	if raw := v.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return v.GetValue()
}
