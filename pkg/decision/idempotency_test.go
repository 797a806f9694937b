package decision

import (
	"strings"
	"testing"
)

func TestMethodClass(t *testing.T) {
	for class, methods := range map[Idempotency]string{
		Safe:          "GET HEAD OPTIONS TRACE",
		Idempotent:    "PUT DELETE",
		NonIdempotent: "POST PATCH CONNECT PROPFIND QUERY get Put PUT\t GETX",
	} {
		for _, method := range strings.Split(methods, " ") {
			if got := MethodClass(method); got != class {
				t.Errorf("%q is %s, want %s", method, got, class)
			}
		}
	}
	if got := MethodClass(""); got != NonIdempotent {
		t.Errorf("no method is %s", got)
	}
}

func TestValidKey(t *testing.T) {
	longestKey := strings.Repeat("k", MaxKeyBytes)
	for _, tc := range []struct {
		teaches string
		lines   []string
		want    bool
	}{
		{"one key", []string{"7b1f"}, true},
		{"the longest key", []string{longestKey}, true},
		{"one byte more", []string{longestKey + "k"}, false},
		{"bytes count, not characters", []string{strings.Repeat("é", 128)}, false},
		{"no line", nil, false},
		{"an empty line", []string{""}, false},
		{"two lines", []string{"a", "b"}, false},
		{"the same key twice", []string{"a", "a"}, false},
		{"an empty line beside a key", []string{"a", ""}, false},
		{"two keys joined by a proxy", []string{"a,b"}, false},
		{"a comma alone", []string{","}, false},
		{"a blank before", []string{" a"}, false},
		{"a tab behind", []string{"a\t"}, false},
		{"a blank inside", []string{"a b"}, true},
		{"blanks only", []string{"  "}, false},
	} {
		t.Run(tc.teaches, func(t *testing.T) {
			if got := ValidKey(tc.lines...); got != tc.want {
				t.Errorf("ValidKey(%q) = %t", tc.lines, got)
			}
			for class := IdempotencyUnknown; class <= Safe; class++ {
				want := class
				if class == IdempotentWithKey && !tc.want {
					want = NonIdempotent
				}
				if got := class.WithKey(tc.lines...); got != want {
					t.Errorf("%s with the key %q is %s, want %s", class, tc.lines, got, want)
				}
			}
		})
	}
}
