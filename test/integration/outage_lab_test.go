package integration

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

// slowLink is a TCP proxy between Envoy and Verdict that holds Verdict's answers back.
type slowLink struct {
	delay atomic.Int64 // nanoseconds for each piece

	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

// patch puts the link in front of the only replica.
func (l *slowLink) patch(t *testing.T) stack.Patch {
	return stack.NewPatch("a slow link to Verdict", func(c *stack.Config) error {
		path := stack.Cluster("verdict") + "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value"
		port, err := c.Get(path)
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		var serving sync.WaitGroup
		serving.Go(func() { l.serve(listener, fmt.Sprintf("127.0.0.1:%v", port), &serving) })
		t.Cleanup(func() { _ = listener.Close(); l.closeAll(); serving.Wait() })
		return stack.Set(path, fmt.Sprint(listener.Addr().(*net.TCPAddr).Port))(c)
	})
}

func (l *slowLink) serve(listener net.Listener, target string, serving *sync.WaitGroup) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !l.keep(client, server) {
			return
		}
		serving.Go(func() { l.copy(server, client, 0) })
		serving.Go(func() { l.copy(client, server, 1) })
	}
}

func (l *slowLink) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conns...)
	if l.closed {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	return !l.closed
}

func (l *slowLink) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

// copy holds each piece back for share times the delay.
func (l *slowLink) copy(to, from net.Conn, share int64) {
	defer func() { _, _ = to.Close(), from.Close() }()
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			time.Sleep(time.Duration(share * l.delay.Load()))
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
