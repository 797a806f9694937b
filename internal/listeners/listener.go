// Package listeners opens the addresses on which the service is asked, and keeps out whoever may not ask.
//
// A TLS listener makes the handshake itself, before the server behind it knows of the connection: a client
// that is refused reaches nothing of the service. Each handshake runs by itself and has a time limit, so
// that silent clients hold up nobody.
package listeners

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// Options are what listeners have in common.
type Options struct {
	Log *slog.Logger
	// Refused is told of every connection that did not get through the handshake. It may be nil.
	Refused func(listener string, why Refusal)
	// Every is how often the files are looked at; 0 means a second.
	Every time.Duration
	// Timeout is how long a handshake may take; 0 means five seconds.
	Timeout time.Duration
	// MaxHandshakes is how many may be open at once; 0 means 1000. Beyond it the oldest ends.
	MaxHandshakes int
}

func (o *Options) defaults() {
	if o.Every == 0 {
		o.Every = time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.MaxHandshakes == 0 {
		o.MaxHandshakes = 1000
	}
}

// TLS is a net.Listener whose connections, of type *tls.Conn, have completed the handshake.
type TLS struct {
	inner     net.Listener
	name      string
	protocols []string
	options   Options

	identity atomic.Pointer[identity]
	reading  sync.Mutex // held while the files are read
	settings *retryv1.Listener
	trouble  string // the last error of reading, said once

	accepted  chan result
	done      chan struct{}
	closing   sync.Once
	running   sync.WaitGroup
	mu        sync.Mutex
	open      *list.List // of context.CancelCauseFunc, the oldest first
	sometimes [refusals]rate.Sometimes
}

type result struct {
	conn net.Conn
	err  error
}

// NewTLS takes over a listener. name is its name in the configuration, protocols are what is offered by
// ALPN, the best first. An error names the field and the file; then inner is still the caller's.
func NewTLS(inner net.Listener, name string, settings *retryv1.Listener, protocols []string, o Options) (*TLS, error) {
	o.defaults()
	t := &TLS{
		inner: inner, name: name, protocols: protocols, options: o,
		accepted: make(chan result), done: make(chan struct{}), open: list.New(),
	}
	for i := range t.sometimes {
		t.sometimes[i].Interval = 10 * time.Second
	}
	apply, err := t.Prepare(settings)
	if err != nil {
		return nil, err
	}
	apply()
	t.running.Go(t.accept)
	t.running.Go(t.watch)
	return t, nil
}

// Prepare makes ready to put other settings in force, for connections that begin after apply was called. An
// error names the field and the file. Files whose names do not change are not read: what is wrong with them
// now is Reload's business.
func (t *TLS) Prepare(settings *retryv1.Listener) (apply func(), err error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	var files [3][]byte
	if t.settings != nil && proto.Equal(t.settings.GetTls(), settings.GetTls()) {
		files = t.identity.Load().files
	} else {
		files, err = read(settings.GetTls())
	}
	var next *identity
	if err == nil {
		next, err = newIdentity(settings, files, t.protocols)
	}
	if err != nil {
		return nil, fmt.Errorf("listeners.%s.%w", t.name, err)
	}
	return func() {
		t.reading.Lock()
		defer t.reading.Unlock()
		t.adopt(settings, next)
	}, nil
}

// adopt is called with reading held.
func (t *TLS) adopt(settings *retryv1.Listener, next *identity) {
	t.settings, t.trouble = settings, ""
	t.identity.Store(next)
	if time.Now().After(next.notAfter) {
		t.options.Log.Warn("the certificate of a listener has expired", "listener", t.name, "file", settings.GetTls().GetCertFile(), "not_after", next.notAfter)
	}
}

// NotAfter is when the certificate that is shown expires.
func (t *TLS) NotAfter() time.Time { return t.identity.Load().notAfter }

// Reload reads the files again. As long as they are not good, the last ones that were stay in force, which
// is said once.
func (t *TLS) Reload() {
	t.reading.Lock()
	defer t.reading.Unlock()
	files, err := read(t.settings.GetTls())
	if err == nil && t.identity.Load().same(files) {
		t.trouble = ""
		return
	}
	var next *identity
	if err == nil {
		next, err = newIdentity(t.settings, files, t.protocols)
	}
	if err == nil {
		t.adopt(t.settings, next)
		t.options.Log.Info("a listener's certificates were read again", "listener", t.name, "not_after", next.notAfter)
		return
	}
	if text := err.Error(); text != t.trouble {
		t.trouble = text
		t.options.Log.Error("a listener's new certificates are not good: the last ones that were stay in force",
			"listener", t.name, "error", fmt.Errorf("listeners.%s.%w", t.name, err))
	}
}

func (t *TLS) watch() {
	ticker := time.NewTicker(t.options.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.Reload()
		case <-t.done:
			return
		}
	}
}

// Accept returns the next connection that has completed the handshake.
func (t *TLS) Accept() (net.Conn, error) {
	select {
	case r := <-t.accepted:
		return r.conn, r.err
	case <-t.done:
		return nil, net.ErrClosed
	}
}

// Addr is the address of the listener that was taken over.
func (t *TLS) Addr() net.Addr { return t.inner.Addr() }

// Close ends the handshakes that are open, and returns when nothing runs any more. Connections that were
// accepted stay.
func (t *TLS) Close() error {
	err := net.ErrClosed
	t.closing.Do(func() {
		close(t.done)
		err = t.inner.Close()
		t.mu.Lock()
		for e := t.open.Front(); e != nil; e = e.Next() {
			e.Value.(context.CancelCauseFunc)(net.ErrClosed)
		}
		t.mu.Unlock()
		t.running.Wait()
	})
	return err
}

// accept hands the errors of the listener on, so that the server waits before it asks again.
func (t *TLS) accept() {
	for {
		conn, err := t.inner.Accept()
		if err != nil {
			select {
			case t.accepted <- result{err: err}:
				continue
			case <-t.done:
				return
			}
		}
		t.begin(conn)
	}
}

// begin makes the handshake in a goroutine of its own.
func (t *TLS) begin(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.done:
		conn.Close()
		return
	default:
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	late := time.AfterFunc(t.options.Timeout, func() { cancel(context.DeadlineExceeded) })
	if t.open.Len() >= t.options.MaxHandshakes {
		oldest := t.open.Front()
		t.open.Remove(oldest)
		oldest.Value.(context.CancelCauseFunc)(errCrowdedOut)
	}
	place := t.open.PushBack(cancel)
	t.running.Go(func() {
		defer func() {
			late.Stop()
			cancel(nil)
			t.mu.Lock()
			t.open.Remove(place)
			t.mu.Unlock()
		}()
		t.handshake(ctx, conn)
	})
}

func (t *TLS) handshake(ctx context.Context, raw net.Conn) {
	// A process that dies takes every waiting judge with it.
	defer func() {
		if p := recover(); p != nil {
			raw.Close()
			t.options.Log.Error("panic in a handshake", "listener", t.name, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	conn := tls.Server(raw, t.identity.Load().config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		t.refuse(raw.RemoteAddr(), err)
		hangUp(ctx, raw)
		return
	}
	select {
	case t.accepted <- result{conn: conn}:
	case <-ctx.Done(): // the server asks for none
		raw.Close()
	case <-t.done:
		raw.Close()
	}
}
