package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// testdata/operations shows declarations of one upstream, and what they say of requests. A line of
// `class` is METHOD PATH [ROUTE_OPERATION]; `strictest` asks for an unknown upstream and route.
func TestOperations(t *testing.T) {
	datadriven.Walk(t, "testdata/operations", func(t *testing.T, path string) {
		var c *Config
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "declare" {
				c = declare(t, strings.Split(strings.TrimSpace(d.Input), "\n")...)
				return ""
			}
			var out strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				words := append(strings.Split(line, " "), "", "")
				switch d.Cmd {
				case "class":
					name, class := c.Upstream("c").Operation(words[0], words[1], words[2])
					fmt.Fprintf(&out, "%v", class)
					if name != "" {
						fmt.Fprintf(&out, " by %s", name)
					}
				case "strictest":
					fmt.Fprint(&out, c.Strictest(words[0], words[1]))
				default:
					t.Fatalf("unknown command %q", d.Cmd)
				}
				fmt.Fprintf(&out, ": %s\n", line)
			}
			return out.String()
		})
	})
}

// declare reads lines of "CLASS PATTERN" or "CLASS route NAME" for a cluster c.
func declare(t testing.TB, lines ...string) *Config {
	t.Helper()
	var file strings.Builder
	file.WriteString("upstreams:\n- clusters: [c]\n  operations:\n")
	for _, line := range lines {
		class, what, _ := strings.Cut(line, " ")
		if route, ok := strings.CutPrefix(what, "route "); ok {
			fmt.Fprintf(&file, "  - {route_operation: %q, idempotency: %s}\n", route, class)
		} else {
			fmt.Fprintf(&file, "  - {pattern: %q, idempotency: %s}\n", what, class)
		}
	}
	c, err := Parse("declared.yaml", []byte(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLongPath(t *testing.T) {
	c := declare(t, "idempotent POST /", "non_idempotent PUT /pay")
	long := "/" + strings.Repeat("a", MaxPath-2)
	for _, test := range []struct {
		path string
		want decision.Idempotency
	}{
		{long, decision.Idempotent},
		{long + "?a=b", decision.Idempotent},
		{long + "a", decision.NonIdempotent}, // it may go on behind the cut
		{long + "a?a=b", decision.NonIdempotent},
		{"/?" + strings.Repeat("a", MaxPath-2), decision.Idempotent},
	} {
		if _, class := c.Upstream("c").Operation("POST", test.path, ""); class != test.want {
			t.Errorf("POST with %d bytes is %v, want %v", len(test.path), class, test.want)
		}
		if _, class := c.Upstream("c").Operation("PUT", test.path, ""); class != decision.NonIdempotent {
			t.Errorf("PUT with %d bytes is %v", len(test.path), class)
		}
	}
}

func TestOperationAllocatesNothing(t *testing.T) {
	c := declare(t, "idempotent_with_key POST /orders/{id}", "non_idempotent PUT /pay", "idempotent PUT /", "safe route search")
	u := c.Upstream("c")
	if n := testing.AllocsPerRun(100, func() {
		u.Operation("POST", "/orders/17?a=b", "")
		u.Operation("PUT", "/Pay/", "search")
		c.Strictest("PUT", "/x//y")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOperation(b *testing.B) {
	lines := []string{"idempotent POST /"}
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("idempotent_with_key POST /service/v1/thing%d/{id}", i))
	}
	u := declare(b, lines...).Upstream("c")
	for b.Loop() {
		u.Operation("POST", "/service/v1/thing50/4711?a=b", "")
	}
}
