package console

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/internal/telemetry"
)

// TestLive: a page gets everything that there is, then what is new; Stop ends its stream.
func TestLive(t *testing.T) {
	l := newLab(t)
	running := make(chan struct{})
	go func() { defer close(running); l.Run(t.Context()) }()
	defer func() { <-running }()
	defer l.Stop()
	watch := func() (*http.Response, func() (string, event)) {
		resp, err := http.Get(l.url + Path + "live")
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(resp.Body)
		return resp, func() (kind string, e event) {
			for range 3 {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if text, ok := strings.CutPrefix(line, "event: "); ok {
					kind = strings.TrimSpace(text)
				} else if text, ok := strings.CutPrefix(line, "data: "); ok {
					if err := json.Unmarshal([]byte(text), &e); err != nil {
						t.Fatal(err)
					}
				}
			}
			return kind, e
		}
	}
	resp, next := watch()
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v", resp.Header)
	}
	kind, e := next()
	if kind != "all" || e.Open != 3 || e.Lost != 4 || e.Process == "" || !e.Draining || len(e.Upstreams) != 1 || !e.Upstreams[0].Shadow || e.Upstreams[0].Name != "app" {
		t.Errorf("first %s %+v", kind, e)
	}
	for range 5 {
		if kind, e = next(); kind == "now" && len(e.Upstreams[0].Points) != 1 {
			t.Errorf("then %s %+v", kind, e)
		}
	}

	more := []*http.Response{}
	for range maxViewers - 1 {
		resp, next := watch()
		next()
		more = append(more, resp)
	}
	if resp, body := l.do(t, "GET", Path+"live", ""); resp.StatusCode != 503 {
		t.Errorf("one page too many: status %d", resp.StatusCode)
	} else {
		wantWords(t, body)
	}
	for _, resp := range more {
		resp.Body.Close()
	}
	l.Stop()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}

// TestStalledPage: a page that does not read loses its stream, and its place.
func TestStalledPage(t *testing.T) {
	l := newLab(t)
	l.stalled = 100 * time.Millisecond
	counts := map[string]*telemetry.Counts{}
	for i := range maxUpstreams {
		name := strings.Repeat("x", 250) + strconv.Itoa(i)
		counts[name] = &telemetry.Counts{Upstream: name}
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET "+Path+"live HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	began := false
	for end := time.Now().Add(20 * time.Second); !began || len(l.viewers) > 0; time.Sleep(time.Millisecond) {
		began = began || len(l.viewers) > 0
		l.samples.add(time.Now(), counts, nil, nil)
		if time.Now().After(end) {
			t.Fatal("it holds its place")
		}
	}
}

// TestStalledCall: a call whose body does not come is given up.
func TestStalledCall(t *testing.T) {
	l := newLab(t)
	l.stalled = 100 * time.Millisecond
	conn, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST "+drainCall+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	if len(l.drained) > 0 {
		t.Errorf("drained %q", l.drained)
	}
}
