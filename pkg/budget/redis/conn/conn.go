// Package conn is the connection to a Redis or Valkey server. It repeats nothing by itself: a call whose
// reply was lost may have been executed, and only who made it knows what that means.
package conn

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/redis/rueidis"
)

// ErrClosed is the error of a call after Close.
var ErrClosed = errors.New("the connection to Redis is closed")

// Options say where a server is. Only Addresses must be set.
type Options struct {
	// Addresses is HOST:PORT of the server, or of the Sentinels where SentinelMaster is set.
	Addresses []string
	// SentinelMaster is the name by which the Sentinels know the master; "" for a standalone server.
	SentinelMaster string
	// Username is of the server's ACL; "" is the default user.
	Username string
	// PasswordFile holds the password, which is read at every connection; a line feed at its end is cut
	// off. "" is no password. Sentinels are asked without one.
	PasswordFile string
	// TLS, if not nil, is used towards the server and the Sentinels.
	TLS *tls.Config
}

// Conn is one connection, which is there from the first call on, and again after it was lost. It is safe
// for concurrent use; calls at the same time share it.
type Conn struct {
	option  rueidis.ClientOption
	timeout time.Duration
	turn    chan struct{} // held by who looks at or changes what follows
	client  rueidis.Client
	closed  bool
}

// New prepares a connection whose calls wait for their replies for timeout at most. An error is options
// that cannot be used, a password file that cannot be read among them; a server that is not there is none.
func New(o Options, timeout time.Duration) (*Conn, error) {
	if len(o.Addresses) == 0 {
		return nil, errors.New("redis: no address")
	}
	if o.SentinelMaster == "" && len(o.Addresses) > 1 {
		return nil, fmt.Errorf("redis: %d addresses, and no name of a Sentinel's master", len(o.Addresses))
	}
	if o.PasswordFile != "" {
		if _, err := readPassword(o.PasswordFile); err != nil {
			return nil, err
		}
	}
	c := &Conn{timeout: timeout, turn: make(chan struct{}, 1)}
	c.option = rueidis.ClientOption{
		InitAddress:       o.Addresses,
		TLSConfig:         o.TLS,
		Dialer:            net.Dialer{Timeout: time.Second, KeepAlive: time.Second},
		ConnWriteTimeout:  max(time.Second, 2*timeout), // a black hole is left after that
		ClientName:        "verdict",
		ClientSetInfo:     rueidis.DisableClientSetInfo,
		DisableRetry:      true, // a call whose reply was lost may have been executed
		DisableCache:      true,
		AlwaysPipelining:  true, // a call that is given up does not cost the connection
		PipelineMultiplex: -1,   // one connection
		AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			a := rueidis.AuthCredentials{Username: o.Username}
			var err error
			if o.PasswordFile != "" {
				a.Password, err = readPassword(o.PasswordFile)
			}
			return a, err
		},
	}
	if o.SentinelMaster != "" {
		c.option.Sentinel = rueidis.SentinelOption{
			MasterSet: o.SentinelMaster, TLSConfig: o.TLS, Dialer: c.option.Dialer, TopologyRefreshInterval: time.Second,
		}
	} else {
		c.option.ForceSingleClient = true
	}
	return c, nil
}

func readPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("redis: password: %w", err)
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	return string(text), nil
}

// Script is a Lua script.
type Script struct{ text, sha string }

// NewScript takes a script's text.
func NewScript(text string) Script {
	sha := sha1.Sum([]byte(text))
	return Script{text, hex.EncodeToString(sha[:])}
}

// Eval runs a script once. One that the server does not know (NOSCRIPT, and so it did not run) is sent
// in full. The reply is as of Do.
func (c *Conn) Eval(ctx context.Context, s Script, keys, args []string) (any, error) {
	client, err := c.connection(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	result := client.Do(ctx, client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if e, ok := rueidis.IsRedisErr(result.Error()); ok && e.IsNoScript() {
		result = client.Do(ctx, client.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	return reply(result)
}

// Do sends a command once. The reply is nil, a string, an int64, a []any of these, or for some commands
// a float64 or a map[string]any.
func (c *Conn) Do(ctx context.Context, words ...string) (any, error) {
	client, err := c.connection(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return reply(client.Do(ctx, client.B().Arbitrary(words...).Build()))
}

func reply(result rueidis.RedisResult) (any, error) {
	v, err := result.ToAny()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return v, err
}

// connection connects, the first time. After that the library does, when the connection was lost.
func (c *Conn) connection(ctx context.Context) (rueidis.Client, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.closed {
		return nil, ErrClosed
	}
	if c.client == nil {
		client, err := rueidis.NewClient(c.option)
		if err != nil {
			return nil, err
		}
		c.client = client
	}
	return c.client, nil
}

// Close ends the connection, and the calls that wait.
func (c *Conn) Close() {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.closed = true
	if c.client != nil {
		c.client.Close()
	}
}
