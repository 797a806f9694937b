package redis

import (
	"bytes"
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

//go:embed script.lua
var script string

var errClosed = errors.New("the budget is closed")

// client sends requests to the server. It repeats nothing by itself, except that a script which the
// server does not know (NOSCRIPT, and so it did not run) is sent in full.
type client struct {
	option  rueidis.ClientOption
	timeout time.Duration
	log     *slog.Logger
	script  string
	sha     string

	mu     sync.Mutex
	conn   rueidis.Client // nil before the first connection
	closed bool
}

func newClient(o *Options) (*client, error) {
	if o.PasswordFile != "" {
		if _, err := readPassword(o.PasswordFile); err != nil {
			return nil, err
		}
	}
	sha := sha1.Sum([]byte(script))
	c := &client{timeout: o.Timeout, log: o.Logger, script: script, sha: hex.EncodeToString(sha[:])}
	c.option = rueidis.ClientOption{
		InitAddress:       o.Addresses,
		TLSConfig:         o.TLS,
		Dialer:            net.Dialer{Timeout: time.Second, KeepAlive: time.Second},
		ConnWriteTimeout:  max(time.Second, 2*o.Timeout), // a black hole is left after that
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
		return "", fmt.Errorf("redis budget: password: %w", err)
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	return string(text), nil
}

func (c *client) exec(keys []string, r *request) (*reply, error) {
	conn, err := c.connection()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	args := r.args()
	result := conn.Do(ctx, conn.B().Evalsha().Sha1(c.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if e, ok := rueidis.IsRedisErr(result.Error()); ok && e.IsNoScript() {
		result = conn.Do(ctx, conn.B().Eval().Script(c.script).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	}
	fields, err := result.ToAny()
	if err != nil {
		return nil, err
	}
	list, _ := fields.([]any)
	return readReply(list)
}

// connection connects, the first time. After that the library does, when the connection was lost.
func (c *client) connection() (rueidis.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.conn != nil {
		return c.conn, nil
	}
	conn, err := rueidis.NewClient(c.option)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	c.checkEviction(conn)
	return conn, nil
}

// checkEviction says so where the server may forget what was spent.
func (c *client) checkEviction(conn rueidis.Client) {
	if c.log == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	info, err := conn.Do(ctx, conn.B().Info().Section("memory").Build()).ToString()
	policy := ""
	for _, line := range strings.Split(info, "\r\n") {
		if p, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			policy = p
		}
	}
	if policy != "noeviction" {
		c.log.Error("the budget's Redis may evict keys and then forget what was spent: set maxmemory-policy noeviction",
			"maxmemory_policy", policy, "error", err)
	}
}

func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		c.conn.Close()
	}
}
