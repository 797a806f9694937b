package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Port is a TCP port that this Server holds. While it is closed, connecting to it is refused, and the
// system gives its number to nobody who asks for a free one: it is bound and not listening.
type Port struct {
	s    *Server
	addr string

	mu   sync.Mutex
	fd   int // bound and not listening; -1 while open
	ln   net.Listener
	done bool
}

// Reserve holds a closed port at addr, host:port; "" means a free port of 127.0.0.1. Close of the
// Server gives it back.
func (s *Server) Reserve(addr string) (*Port, error) {
	fd, addr, err := bind(addr)
	if err != nil {
		return nil, err
	}
	p := &Port{s: s, addr: addr, fd: fd}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return nil, errors.Join(net.ErrClosed, p.release())
	}
	s.closers = append(s.closers, p.release)
	return p, nil
}

// Addr is the port's address, host:port.
func (p *Port) Addr() string { return p.addr }

// Open makes the port serve HTTP/1.1, as Addrs.H1 does. It has no effect on an open port.
func (p *Port) Open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || p.ln != nil {
		return nil
	}
	ln, err := listenOn(p.fd, syscall.SOMAXCONN)
	p.fd = -1
	if err != nil {
		return err
	}
	p.ln = ln
	p.s.wg.Go(func() { p.s.accept(ln, p.s.serveH1("late", nil)) })
	return nil
}

// Shut closes the port again; connections that it has accepted stay. It has no effect on a closed port.
func (p *Port) Shut() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ln == nil {
		return nil
	}
	err := p.ln.Close()
	p.ln = nil
	if err == nil {
		p.fd, _, err = bind(p.addr)
	}
	return err
}

func (p *Port) release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	if p.ln != nil {
		return p.ln.Close()
	}
	if p.fd >= 0 {
		return syscall.Close(p.fd)
	}
	return nil
}

// bind makes a TCP socket that has an address and does not listen.
func bind(addr string) (fd int, bound string, err error) {
	want, err := net.ResolveTCPAddr("tcp4", orLoopback(addr))
	if err != nil {
		return -1, "", err
	}
	fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, "", os.NewSyscallError("socket", err)
	}
	sa := &syscall.SockaddrInet4{Port: want.Port}
	copy(sa.Addr[:], want.IP.To4())
	if err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(fd, sa)
	}
	var name syscall.Sockaddr
	if err == nil {
		name, err = syscall.Getsockname(fd)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return -1, "", fmt.Errorf("bind %s: %w", want, err)
	}
	want.Port = name.(*syscall.SockaddrInet4).Port
	return fd, want.String(), nil
}

// listenOn turns a bound socket into a listener, and takes it over whatever happens.
func listenOn(fd, backlog int) (net.Listener, error) {
	file := os.NewFile(uintptr(fd), "listener")
	defer func() { _ = file.Close() }()
	if err := syscall.Listen(fd, backlog); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	return net.FileListener(file)
}

// backlogged is a listener that accepts nothing and whose backlog is full.
type backlogged struct {
	addr    string
	ln      net.Listener
	waiting []int
}

// fullBacklog fills the backlog of a listener with connections of its own. A backlog of 0 holds one
// connection on Linux; while it is full, further SYN packets are dropped: the peer's connect neither
// succeeds nor is refused, it times out.
func fullBacklog(addr string) (*backlogged, error) {
	fd, addr, err := bind(addr)
	if err != nil {
		return nil, err
	}
	b := &backlogged{addr: addr}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("getsockname", err)
	}
	if b.ln, err = listenOn(fd, 0); err != nil {
		return nil, err
	}
	for range 4 { // one more than needed is harmless: it goes on knocking
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, errors.Join(os.NewSyscallError("socket", err), b.Close())
		}
		b.waiting = append(b.waiting, fd)
		if err := syscall.Connect(fd, sa); err != nil && err != syscall.EINPROGRESS {
			return nil, errors.Join(os.NewSyscallError("connect", err), b.Close())
		}
	}
	return b, nil
}

func (b *backlogged) Close() error {
	for _, fd := range b.waiting {
		_ = syscall.Close(fd)
	}
	return b.ln.Close()
}

// serveSilence reads and says nothing until the peer has gone.
func (s *Server) serveSilence(c *net.TCPConn, _ int64) { _, _ = io.Copy(io.Discard, c) }
