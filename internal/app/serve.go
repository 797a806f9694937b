package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"
)

// ServeCmd serves until its context ends, then drains.
type ServeCmd struct {
	Config     string        `placeholder:"FILE" help:"Configuration (YAML), reloaded when it changes and at SIGHUP. Without it the defaults hold for every upstream."`
	Before     string        `name:"config-before" placeholder:"FILE" help:"The configuration before this start, here or in other replicas: on second and later attempts, what it declared less strictly counts as UNKNOWN for longest_request."`
	DataPlane  string        `default:"127.0.0.1:9002" placeholder:"ADDR" help:"Where Envoy calls: HOST:PORT or unix:PATH."`
	Admin      string        `default:"127.0.0.1:9003" placeholder:"ADDR" help:"Where the operator's commands, the console, /metrics and /healthz are: HOST:PORT or unix:PATH."`
	API        string        `placeholder:"ADDR" help:"Where programs without an Envoy ask (gRPC): HOST:PORT or unix:PATH. Off by default."`
	SocketMode SocketMode    `default:"600" placeholder:"MODE" help:"The permissions of Unix sockets, in octal: who may write may connect."`
	Shadow     []string      `placeholder:"UPSTREAM" help:"Look and do not act: decide on this upstream's answers, count, log and enter into the ledger, and let Envoy's traffic be what it is with Verdict down. May be repeated."`
	ShadowAll  bool          `help:"The same for all upstreams."`
	DrainTime  time.Duration `default:"10s" help:"At SIGTERM, how long a running wait may still go on."`
	LedgerSize int           `default:"10000" placeholder:"N" help:"How many uncertain outcomes are kept, each about 1.5 KiB; in Redis, for all that share it. When it is full, the first resolved makes room, else the oldest."`
	EventLog   string        `placeholder:"FILE" help:"Append every deposit, grant and return of the retry budget, as NDJSON."`
	Console    string        `default:"auto" enum:"auto,on,off" help:"Serve the web console at /console/ of the admin listener. auto: where that is a loopback address or a Unix socket."`
	Pprof      bool          `help:"Serve Go's profiles at /debug/pprof/ of the admin listener."`
	LogLevel   LogLevel      `default:"info" help:"debug, info, warn or error. debug shows every decision."`
	LogFormat  string        `default:"text" enum:"text,json" help:"text or json."`
}

// LogLevel is what is logged and what is more than that.
type LogLevel slog.Level

// UnmarshalText reads debug, info, warn or error.
func (l *LogLevel) UnmarshalText(text []byte) error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, string(text)) {
		return fmt.Errorf("%q is none of debug, info, warn, error", text)
	}
	return (*slog.Level)(l).UnmarshalText(text)
}

// Validate is called by kong.
func (c *ServeCmd) Validate() error {
	switch {
	case c.LedgerSize < 1:
		return badArgumentf("--ledger-size: %d is less than 1", c.LedgerSize)
	case c.DrainTime < 0:
		return badArgumentf("--drain-time: %v is less than 0s", c.DrainTime)
	}
	return cmp.Or(checkAddress("--data-plane", c.DataPlane), checkAddress("--admin", c.Admin), checkAddress("--api", c.API))
}

func (c *ServeCmd) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(c.LogLevel)}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// shadows is the operator's choice of where to look only. An answer whose upstream is not known is acted
// on unless all are shadowed.
func (c *ServeCmd) shadows(upstream string) bool {
	return c.ShadowAll || slices.Contains(c.Shadow, upstream)
}

// Run serves. An error is a configuration that is not valid, an address that cannot be had, or a
// listener that broke.
func (c *ServeCmd) Run(ctx context.Context, out streams) error {
	s, err := c.build(c.logger(out.err))
	if err != nil {
		return err
	}
	defer s.close()
	return s.serve(ctx)
}
