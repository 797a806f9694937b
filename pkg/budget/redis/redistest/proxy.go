package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Mode is what a Proxy does with what passes it.
type Mode int

// Modes of a Proxy.
const (
	Passing         Mode = iota
	Cutting              // connections are closed, and new ones too
	Delaying             // 30 ms in each direction
	DroppingReplies      // requests arrive, replies do not
	Swallowing           // nothing arrives, and connections stay: a black hole
)

// A Proxy stands between a process and its server and plays the network.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	mode    Mode
	conns   map[net.Conn]bool
	dropped int // bytes of replies
}

// NewProxy passes on to target until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: l, conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Set(Cutting)
		p.running.Wait()
	})
	return p
}

// Address is where the Proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Set changes the mode, at once.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// What was dropped is missing from the stream: nothing that comes after it can be understood.
	dropped := p.mode == DroppingReplies || p.mode == Swallowing
	if m == Cutting || dropped && m != p.mode {
		for c := range p.conns {
			c.Close()
		}
	}
	p.mode = m
}

// Dropped is how many bytes of replies have been dropped.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

func (p *Proxy) now() Mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.now() == Cutting {
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

func (p *Proxy) copy(to, from net.Conn, replies bool) {
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
		case m == Cutting:
			return
		case m == Delaying:
			time.Sleep(30 * time.Millisecond)
		case m == Swallowing || m == DroppingReplies && replies:
			p.mu.Lock()
			if replies {
				p.dropped += n
			}
			p.mu.Unlock()
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
