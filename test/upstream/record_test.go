package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestWaitHits(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if hits, err := s.WaitHits(ctx, "w", 1); len(hits) != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", hits, err)
	}
	got := make(chan error, 1)
	go func() {
		hits, err := s.WaitHits(soon(t), "w", 2)
		if err == nil && len(hits) != 2 {
			err = fmt.Errorf("%d hits", len(hits))
		}
		got <- err
	}()
	for range 2 {
		c := dial(t, s.Addrs().H1)
		c.get("w", "ok")
		c.response("GET")
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestResetStartsScriptsAnew(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	for _, want := range []int{503, 200, 503} {
		c.get("r", "503, ok")
		if resp, _ := c.response("GET"); resp.StatusCode != want {
			t.Errorf("status %d, want %d", resp.StatusCode, want)
		}
		if want == 200 {
			s.Reset()
			if len(s.Hits("r")) != 0 || s.Effects("r") != 0 {
				t.Error("Reset left something")
			}
		}
	}
}

func TestTheOldestIDIsForgotten(t *testing.T) {
	r := newRecorder()
	r.maxIDs = 100
	for i := range r.maxIDs + 10 {
		r.add(Hit{ID: fmt.Sprint(i)})
	}
	if len(r.hits("9")) != 0 || len(r.hits("10")) != 1 || len(r.byID) != r.maxIDs {
		t.Errorf("%d ids", len(r.byID))
	}
}

func TestControl(t *testing.T) {
	s := start(t)
	defer http.DefaultClient.CloseIdleConnections()
	call := func(method, path string, status int, into any) string {
		t.Helper()
		req, _ := http.NewRequestWithContext(soon(t), method, "http://"+s.Addrs().Control+path, nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status {
			t.Errorf("%s: %d %s %v", path, resp.StatusCode, body, err)
		}
		if into != nil {
			if err := json.Unmarshal(body, into); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return string(body)
	}
	var addrs Addrs
	if call("GET", "/addrs", 200, &addrs); addrs != s.Addrs() {
		t.Errorf("%+v", addrs)
	}
	call("POST", "/late/open", 200, nil)
	c := dial(t, addrs.Late)
	c.post("id 1", "429, ok")
	c.response("POST")
	c.post("id 1", "429, ok")
	c.response("POST")
	var hits []Hit
	call("GET", "/hits?id=id+1&n=2", 200, &hits)
	if len(hits) != 2 || hits[1].BodyBytes != 10 || hits[1].Executed == hits[0].Executed || hits[0].Listener != "late" {
		t.Errorf("%+v", hits)
	}
	var counts map[string]int
	if call("GET", "/effects?id=id+1", 200, &counts); counts["hits"] != 2 || counts["effects"] != 1 {
		t.Errorf("%v", counts)
	}
	call("GET", "/hits?id=id+1&n=3&timeout=20ms", 504, &hits)
	call("GET", "/hits?id=a&n=x", 400, nil)
	call("GET", "/hits?id=a&timeout=x", 400, nil)
	if body := call("GET", "/hits?id=nobody", 200, nil); body != "[]\n" {
		t.Errorf("%q", body)
	}
	var stats Stats
	if call("GET", "/stats", 200, &stats); stats.Requests != 2 || stats.Connections != 1 {
		t.Errorf("%+v", stats)
	}
	for _, path := range []string{"/ca", "/other-ca", "/client-cert", "/client-key"} {
		if body := call("GET", path, 200, nil); !strings.HasPrefix(body, "-----BEGIN ") {
			t.Errorf("%s: %q", path, body)
		}
	}
	call("POST", "/late/shut", 200, nil)
	call("POST", "/reset", 200, nil)
	if call("GET", "/hits?id=id+1", 200, &hits); len(hits) != 0 {
		t.Errorf("%+v", hits)
	}
}

// BenchmarkHealthy is one keep-alive connection that asks for nothing:
//
//	go test -run '^$' -bench Healthy ./test/upstream
func BenchmarkHealthy(b *testing.B) {
	s, err := Start(Addrs{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	conn, err := net.Dial("tcp", s.Addrs().H1)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request := []byte("GET /thing HTTP/1.1\r\nhost: up\r\nx-request-id: 1\r\n\r\n")
	answer := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if n, err := conn.Read(answer); err != nil || !bytes.HasSuffix(answer[:n], []byte("\r\nok\n")) {
			b.Fatal(string(answer[:n]), err)
		}
	}
}
