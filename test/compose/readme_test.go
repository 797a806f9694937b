package compose

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// testReadme runs what docs/compose.md says to try, and opens what it says to open.
func (p *project) testReadme(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/compose.md")
	if err != nil {
		t.Fatal(err)
	}
	ports := strings.NewReplacer(
		"127.0.0.1:10000", p.addr(t, "envoy", 10000), "127.0.0.1:9901", p.addr(t, "envoy", 9901),
		"127.0.0.1:9003", p.addr(t, "verdict-1", 9003), "127.0.0.1:9004", p.addr(t, "verdict-2", 9003),
		"127.0.0.1:9090", p.addr(t, "prometheus", 9090), "127.0.0.1:3000", p.addr(t, "grafana", 3000),
		"127.0.0.1:9100", p.addr(t, "load", 9100), "127.0.0.1:9000", p.addr(t, "upstream", 9000))
	opened, run := 0, 0
	for line := range strings.Lines(string(page)) {
		if _, rest, ok := strings.Cut(line, "| <http://"); ok {
			address, _, _ := strings.Cut(rest, ">")
			opened++
			if _, err := p.get("http://" + ports.Replace(address)); err != nil {
				t.Errorf("%s: %v", address, err)
			}
		}
		try, ok := strings.CutPrefix(line, "    ")
		try, _, _ = strings.Cut(try, "  #")
		words := strings.Fields(strings.ReplaceAll(ports.Replace(try), "'", ""))
		switch {
		case ok && strings.HasPrefix(try, "docker compose exec "):
			run++
			if out, err := p.try(time.Minute, append([]string{"exec", "-T"}, words[3:]...)...); err != nil || len(out) == 0 {
				t.Errorf("%s: %v\n%s", try, err, out)
			}
		case ok && strings.HasPrefix(try, "curl "):
			run++
			request, err := http.NewRequestWithContext(t.Context(), words[slices.Index(words, "-X")+1], words[len(words)-1], nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := p.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.Header.Get("x-retry-verdict") != "ambiguous" || answer.Header.Get("x-retry-ambiguity-id") == "" {
				t.Errorf("%s: %s %v", try, answer.Status, answer.Header)
			}
		}
	}
	if opened < 6 || run < 4 {
		t.Errorf("%d pages opened and %d commands run: the page has changed", opened, run)
	}
}
