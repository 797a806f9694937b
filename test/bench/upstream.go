package main

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"sync/atomic"
)

// upstream answers each request by its path, and records nothing: its own cost must be small.
type upstream struct {
	listener  net.Listener
	recovered atomic.Bool // from now on /wait is answered with 200
}

var (
	ok       = []byte("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nok\n")
	notFound = []byte("HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\nnot found\n")
	busy     = []byte("HTTP/1.1 503 Service Unavailable\r\nretry-after: 8\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nbusy\n")
)

func startUpstream() (*upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{listener: l}
	go func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go u.serve(conn)
			}
		}
	}()
	return u, nil
}

func (u *upstream) hostPort() (string, int) {
	addr := u.listener.Addr().(*net.TCPAddr)
	return addr.IP.String(), addr.Port
}

// serve answers requests without a body until the peer ends the connection.
func (u *upstream) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		answer := ok
		switch {
		case bytes.HasPrefix(line, []byte("GET /404 ")):
			answer = notFound
		case bytes.HasPrefix(line, []byte("GET /wait ")) && !u.recovered.Load():
			answer = busy
		}
		for len(line) > 2 {
			if line, err = in.ReadSlice('\n'); err != nil {
				return
			}
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}
