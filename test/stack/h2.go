package stack

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// DoH2 is Do in HTTP/2.
func (s *Stack) DoH2(r Request) Answer {
	s.t.Helper()
	a, err := s.TryH2(context.Background(), r)
	if err != nil {
		s.t.Fatalf("stack: HTTP/2 %s %s %s: %v", r.Method, r.Target, r.Fault, err)
	}
	return a
}

// TryH2 is Try in HTTP/2, with prior knowledge. When ctx ends the client leaves by RST_STREAM. Of the
// lines of Request.Header, one that begins with "trailer!" is sent as a trailer, and content-length
// announces the length of an Upload.
func (s *Stack) TryH2(ctx context.Context, r Request) (a Answer, err error) {
	if r.ID == "" {
		r.ID = s.NewID()
	}
	a.ID = r.ID
	begin := time.Now()
	defer func() { a.Elapsed = time.Since(begin) }()
	if r.Timeout == 0 {
		r.Timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	var interim []int
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			interim = append(interim, code)
			return nil
		},
	})
	req, err := r.h2(ctx, s.Addr)
	if err != nil {
		return a, err
	}
	// A connection of its own, and nothing above it that would send a request again.
	var h2 http.Protocols
	h2.SetUnencryptedHTTP2(true)
	conn, err := (&http.Transport{Protocols: &h2, DisableCompression: true}).NewClientConn(ctx, "http", s.Addr)
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }()
	resp, err := conn.RoundTrip(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	a.Interim, a.Status, a.Header = interim, resp.StatusCode, resp.Header
	body, err := io.ReadAll(resp.Body)
	a.Body, a.Trailer = string(body), resp.Trailer
	return a, err
}

// h2 is the request as net/http knows it.
func (r Request) h2(ctx context.Context, addr string) (*http.Request, error) {
	var body io.Reader
	length := int64(len(r.Body))
	switch {
	case r.Upload != nil:
		pipe, w := io.Pipe()
		go func() { _ = w.CloseWithError(r.Upload(w)) }()
		body, length = pipe, -1
	case r.Body != "":
		body = strings.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method(), "http://"+addr+r.Target, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = length
	if req.Host = r.Host; r.Host == "" {
		req.Host = "app.example"
	}
	lines := append([]string{"x-test-id: " + r.ID}, r.Header...)
	if r.Fault != "" {
		lines = append(lines, "x-fault: "+r.Fault)
	}
	trailer := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("header line %q", line)
		}
		if name, ok := strings.CutPrefix(name, "trailer!"); ok {
			trailer.Add(name, value)
			continue
		}
		if name == "content-length" {
			if req.ContentLength, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, fmt.Errorf("header line %q: %w", line, err)
			}
			continue
		}
		req.Header.Add(name, value)
	}
	if len(trailer) > 0 {
		req.Trailer = maps.Clone(trailer)
	}
	return req, nil
}
