package redis

import (
	"context"
	_ "embed"
	"log/slog"
	"strings"
	"sync"

	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
)

//go:embed script.lua
var script string

// client sends requests to the server.
type client struct {
	*conn.Conn
	log     *slog.Logger
	script  conn.Script
	checked sync.Once
}

func newClient(o *Options) (*client, error) {
	c, err := conn.New(o.Server, o.Timeout)
	if err != nil {
		return nil, err
	}
	return &client{Conn: c, log: o.Logger, script: conn.NewScript(script)}, nil
}

func (c *client) exec(keys []string, r *request) (*reply, error) {
	fields, err := c.Eval(context.Background(), c.script, keys, r.args())
	if err != nil {
		return nil, err
	}
	c.checked.Do(c.checkEviction)
	list, _ := fields.([]any)
	return readReply(list)
}

// checkEviction says so where the server may forget what was spent.
func (c *client) checkEviction() {
	if c.log == nil {
		return
	}
	info, err := c.Do(context.Background(), "INFO", "memory")
	text, _ := info.(string)
	policy := ""
	for _, line := range strings.Split(text, "\r\n") {
		if p, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			policy = p
		}
	}
	if policy != "noeviction" {
		c.log.Error("the budget's Redis may evict keys and then forget what was spent: set maxmemory-policy noeviction",
			"maxmemory_policy", policy, "error", err)
	}
}

func (c *client) close() { c.Close() }
