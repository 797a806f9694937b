package stack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"
)

// Request is sent once, as it stands, in HTTP/1.1 on a connection of its own: net/http's client would
// send some requests again by itself.
type Request struct {
	Method string // "" is GET
	Target string // the request target; "" is "/"
	Host   string // chooses the inner virtual host; "" is app.example
	ID     string // x-test-id, by which the upstream counts; "" is a new one
	Fault  string // x-fault, what the upstream plays; "" is its default, 200
	// Header are further lines, each "name: value"; a line that is given twice is sent twice.
	Header []string
	// Body is sent with its Content-Length. No body and a method other than GET, HEAD, OPTIONS and
	// TRACE sends Content-Length 0.
	Body string
	// Upload, where set, writes the body instead, in chunked coding: one chunk for each Write. It ends
	// early when the write fails, as it does when the connection has ended.
	Upload func(io.Writer) error
	// Timeout of the whole exchange; 0 means 30 s.
	Timeout time.Duration
}

// Do sends the request and returns the complete answer. No answer, and one that is cut off, end the
// test: Try returns them.
func (s *Stack) Do(r Request) Answer {
	s.t.Helper()
	a, err := s.Try(context.Background(), r)
	if err != nil {
		s.t.Fatalf("stack: %s %s %s: %v", r.Method, r.Target, r.Fault, err)
	}
	return a
}

// Try sends the request and returns what came of the answer; Status 0: nothing. When ctx ends the
// client leaves: it closes its connection.
func (s *Stack) Try(ctx context.Context, r Request) (a Answer, err error) {
	if r.ID == "" {
		r.ID = s.NewID()
	}
	return Send(ctx, s.Addr, r)
}

// Send is Try towards any address, host:port.
func Send(ctx context.Context, addr string, r Request) (a Answer, err error) {
	a.ID = r.ID
	begin := time.Now()
	if r.Timeout == 0 {
		r.Timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	sent := make(chan error, 1)
	go func() { sent <- r.write(conn) }()
	err = a.read(bufio.NewReader(conn), r.method())
	a.Elapsed = time.Since(begin)
	_ = conn.Close() // ends an upload that goes on
	writeErr := <-sent
	switch {
	case ctx.Err() != nil:
		err = errors.Join(ctx.Err(), err)
	case a.Status == 0 && err != nil:
		err = errors.Join(err, writeErr)
	}
	return a, err
}

func (r Request) method() string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

func (r Request) write(conn io.Writer) error {
	target, host := r.Target, r.Host
	if target == "" {
		target = "/"
	}
	if host == "" {
		host = "app.example"
	}
	head := []string{r.method() + " " + target + " HTTP/1.1", "host: " + host, "x-test-id: " + r.ID}
	if r.Fault != "" {
		head = append(head, "x-fault: "+r.Fault)
	}
	head = append(head, r.Header...)
	switch {
	case r.Upload != nil:
		head = append(head, "transfer-encoding: chunked")
	case r.Body != "" || !bodyless(r.method()):
		head = append(head, fmt.Sprintf("content-length: %d", len(r.Body)))
	}
	text := strings.Join(head, "\r\n") + "\r\n\r\n"
	if r.Upload == nil {
		_, err := io.WriteString(conn, text+r.Body)
		return err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	chunks := httputil.NewChunkedWriter(conn)
	err := errors.Join(r.Upload(chunks), chunks.Close())
	if err == nil {
		_, err = io.WriteString(conn, "\r\n") // no trailers
	}
	return err
}

func bodyless(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
