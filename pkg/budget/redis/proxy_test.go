package redis

import (
	"net"
	"sync"
	"testing"
	"time"
)

type mode int

const (
	passing         mode = iota
	cutting              // connections are closed, and new ones too
	delaying             // 30 ms in each direction
	droppingReplies      // requests arrive, replies do not
)

// A proxy stands between a process and its server and plays the network.
type proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	mode    mode
	conns   map[net.Conn]bool
	dropped int // bytes of replies
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, listener: l, conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.set(cutting)
		p.running.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// What was dropped is missing from the stream: nothing that comes after it can be understood.
	if m == cutting || p.mode == droppingReplies && m != p.mode {
		for c := range p.conns {
			c.Close()
		}
	}
	p.mode = m
}

func (p *proxy) now() mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.now() == cutting {
			c.Close()
			continue
		}
		s, err := net.Dial("tcp", p.target)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[s] = true, true
		p.mu.Unlock()
		p.running.Go(func() { p.copy(s, c, false) })
		p.running.Go(func() { p.copy(c, s, true) })
	}
}

func (p *proxy) copy(to, from net.Conn, replies bool) {
	defer func() {
		to.Close()
		from.Close()
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		switch m := p.now(); {
		case m == cutting:
			return
		case m == delaying:
			time.Sleep(30 * time.Millisecond)
		case m == droppingReplies && replies:
			p.mu.Lock()
			p.dropped += n
			p.mu.Unlock()
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
