package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// Addrs are the addresses of a Server's listeners, host:port. Given to Start, an empty one means a
// free port of 127.0.0.1.
type Addrs struct {
	H1        string `json:"h1" name:"h1" default:"127.0.0.1:0" help:"HTTP/1.1."`
	H2        string `json:"h2" name:"h2" default:"127.0.0.1:0" help:"HTTP/2 cleartext, with prior knowledge."`
	H2One     string `json:"h2_one" name:"h2-one" default:"127.0.0.1:0" help:"The same, SETTINGS_MAX_CONCURRENT_STREAMS 1."`
	TLS       string `json:"tls" default:"127.0.0.1:0" help:"HTTP/1.1 over TLS; the certificate is signed by /ca of the control address."`
	MutualTLS string `json:"mutual_tls" default:"127.0.0.1:0" help:"The same over TLS 1.3, and a client certificate is required."`
	Silent    string `json:"silent" default:"127.0.0.1:0" help:"Accepts TCP connections and says nothing, so that a TLS handshake hangs."`
	Closing   string `json:"closing" default:"127.0.0.1:0" help:"Accepts TCP connections and closes them at once."`
	Late      string `json:"late" default:"127.0.0.1:0" help:"A closed port, until POST /late/open makes it serve HTTP/1.1."`
	Full      string `json:"full" default:"127.0.0.1:0" help:"A listener with a full backlog: connecting times out."`
	Control   string `json:"control" default:"127.0.0.1:0" help:"Control and records, JSON over HTTP."`
}

// Server is a running faulty upstream.
type Server struct {
	rec   *recorder
	certs *Certificates
	addrs Addrs
	late  *Port
	guard guard
	done  chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]struct{} // nil after Close
	closers []func() error
}

// Start listens on all addresses and serves until Close.
func Start(addrs Addrs) (_ *Server, err error) {
	s := &Server{rec: newRecorder(), done: make(chan struct{}), conns: make(map[net.Conn]struct{}), addrs: addrs}
	defer func() {
		if err != nil {
			err = fmt.Errorf("faulty upstream: %w", err)
			_ = s.Close()
		}
	}()
	if s.certs, err = newCertificates(); err != nil {
		return nil, err
	}
	a := &s.addrs
	for _, l := range []struct {
		addr  *string
		serve func(*net.TCPConn, int64)
	}{
		{&a.H1, s.serveH1("h1", nil)},
		{&a.H2, s.serveH2("h2")},
		{&a.H2One, s.serveH2("h2_one", http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})},
		{&a.TLS, s.serveH1("tls", s.certs.serverConfig())},
		{&a.MutualTLS, s.serveH1("mutual_tls", s.certs.mutualConfig())},
		{&a.Silent, s.serveSilence},
		{&a.Closing, func(c *net.TCPConn, _ int64) { lingeringClose(c) }},
	} {
		ln, err := net.Listen("tcp", orLoopback(*l.addr))
		if err != nil {
			return nil, err
		}
		*l.addr = ln.Addr().String()
		s.closers = append(s.closers, ln.Close)
		s.wg.Go(func() { s.accept(ln, l.serve) })
	}
	if s.late, err = s.Reserve(a.Late); err != nil {
		return nil, err
	}
	a.Late = s.late.Addr()
	full, err := fullBacklog(a.Full)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, full.Close)
	a.Full = full.addr
	return s, s.startControl()
}

func orLoopback(addr string) string {
	if addr == "" {
		return "127.0.0.1:0"
	}
	return addr
}

// Addrs are the addresses that the Server listens on.
func (s *Server) Addrs() Addrs { return s.addrs }

// Certificates are those of the TLS listeners.
func (s *Server) Certificates() *Certificates { return s.certs }

// Late is the closed port of Addrs.Late.
func (s *Server) Late() *Port { return s.late }

// Close ends all connections and waits until everything that the Server started has ended.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.conns == nil {
		s.mu.Unlock()
		return nil
	}
	conns, closers := s.conns, s.closers
	s.conns = nil
	s.mu.Unlock()
	close(s.done)
	var errs []error
	for _, c := range closers {
		errs = append(errs, c())
	}
	for c := range conns {
		_ = c.Close()
	}
	s.wg.Wait()
	return errors.Join(errs...)
}

// accept serves every connection of ln until it is closed.
func (s *Server) accept(ln net.Listener, serve func(*net.TCPConn, int64)) {
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors
			if s.sleep(10*time.Millisecond) != nil {
				return
			}
			continue
		}
		if !s.track(conn) {
			return
		}
		id := s.rec.connections.Add(1)
		s.wg.Go(func() {
			defer s.untrack(conn)
			serve(conn.(*net.TCPConn), id)
		})
	}
}

// track lets Close end conn; false: the Server is closed already.
func (s *Server) track(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *Server) untrack(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
}

// sleep returns errGone when the Server is closed meanwhile.
func (s *Server) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.done:
		return errGone
	}
}

func (s *Server) startControl() error {
	ln, err := net.Listen("tcp", orLoopback(s.addrs.Control))
	if err != nil {
		return err
	}
	s.addrs.Control = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{Handler: s.control(), BaseContext: func(net.Listener) context.Context { return ctx }}
	s.closers = append(s.closers, func() error { cancel(); return server.Close() })
	s.wg.Go(func() { _ = server.Serve(ln) })
	return nil
}
