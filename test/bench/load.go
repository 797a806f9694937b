package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// client is one keep-alive connection that sends the same request again and again. It does no more
// than it must, because it shares the processors with what it measures.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	status  string // expected
	field   string // expected line of the answer's head, "" for any
}

// get describes what every request of a load asks for and must get.
type get struct{ addr, path, status, field string }

func (g get) connect() (*client, error) {
	conn, err := net.Dial("tcp", g.addr)
	if err != nil {
		return nil, err
	}
	request := "GET " + g.path + " HTTP/1.1\r\nhost: app.example\r\nuser-agent: bench\r\naccept: */*\r\n\r\n"
	return &client{conn, bufio.NewReader(conn), []byte(request), "HTTP/1.1 " + g.status + " ", g.field}, nil
}

// exchange sends the request and reads the whole answer, which must be the expected one.
func (c *client) exchange() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte(c.status)) {
		return fmt.Errorf("answered %q, want %q", line, c.status)
	}
	length, found := 0, c.field == ""
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		found = found || string(line) == c.field
		if value, ok := bytes.CutPrefix(line, []byte("content-length: ")); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("an answer without %q", c.field)
	}
	_, err = c.in.Discard(length)
	return err
}

// load sends n requests over a number of connections, each as fast as it is answered, and returns the
// round trips.
func (g get) load(connections, n int) ([]time.Duration, error) {
	var clients []*client
	defer func() {
		for _, c := range clients {
			c.conn.Close()
		}
	}()
	for range connections {
		c, err := g.connect()
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		trips   = make([]time.Duration, 0, n)
		failed  error
	)
	for _, c := range clients {
		running.Go(func() {
			own := make([]time.Duration, 0, n/connections)
			for range n / connections {
				begin := time.Now()
				if err := c.exchange(); err != nil {
					mu.Lock()
					failed = fmt.Errorf("GET %s: %w", g.path, err)
					mu.Unlock()
					return
				}
				own = append(own, time.Since(begin))
			}
			mu.Lock()
			trips = append(trips, own...)
			mu.Unlock()
		})
	}
	running.Wait()
	return trips, failed
}
