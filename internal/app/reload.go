package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/telemetry"
)

// lookEvery is how often the configuration file is looked at. A change is in force after one to two of it.
const lookEvery = time.Second

// configuration is the one in force, and what puts the file's next one in its place. All of a file is put
// in force or none of it, except for what waits for a restart.
type configuration struct {
	log     *slog.Logger
	metrics *telemetry.Reloads
	path    string // "" where there is no file
	inForce atomic.Pointer[config.Config]

	data    []byte         // the file's content that is in force
	started *config.Config // what the program was started with
	parts   []part
	live    []protoreflect.Name                           // top-level fields that need no restart
	partly  []func(next *config.Config) (fields []string) // what of these fields does need one
	hangup  chan os.Signal
}

// part is a part of the program that depends on the configuration beyond reading it at each use. It is
// shown the next configuration before anything has changed; an error refuses the file. apply cannot fail.
type part func(next *config.Config) (apply func(), err error)

// loadConfiguration reads the file for the first time.
func loadConfiguration(flags *ServeCmd, r prometheus.Registerer, log *slog.Logger) (*configuration, error) {
	c := &configuration{path: flags.Config, log: log, live: []protoreflect.Name{"defaults", "upstreams", "longest_request"}}
	cfg := config.Default()
	if c.path != "" {
		data, err := config.Read(c.path)
		if err != nil {
			return nil, err
		}
		if cfg, err = config.Parse(c.path, data); err != nil {
			return nil, err
		}
		c.data = data
	}
	if flags.Before != "" {
		before, err := config.Load(flags.Before)
		if err != nil {
			return nil, err
		}
		cfg = cfg.After(before, time.Now())
	}
	c.metrics = telemetry.NewReloads(r)
	c.started = cfg
	c.inForce.Store(cfg)
	c.warn(cfg)
	return c, nil
}

// get returns the configuration in force. It is one load of a pointer.
func (c *configuration) get() *config.Config { return c.inForce.Load() }

// onReload adds a part. The file's top-level fields that it puts in force no longer need a restart.
func (c *configuration) onReload(p part, fields ...protoreflect.Name) {
	c.parts = append(c.parts, p)
	c.live = append(c.live, fields...)
}

// catchHangup lets SIGHUP ask for a reload, until the returned function is called; without it the signal
// ends the process.
func (c *configuration) catchHangup() (stop func()) {
	c.hangup = make(chan os.Signal, 1)
	signal.Notify(c.hangup, syscall.SIGHUP)
	return func() { signal.Stop(c.hangup) }
}

// watch reloads until ctx ends.
func (c *configuration) watch(ctx context.Context) {
	if c.path != "" {
		config.Watch{Path: c.path, Every: lookEvery, Now: c.hangup, Changed: c.changed}.Run(ctx, c.data)
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.hangup:
			c.log.Info("there is no configuration file to reload")
		}
	}
}

// changed puts the file's content in force, or says why not.
func (c *configuration) changed(data []byte, err error) {
	var result string
	if err == nil && bytes.Equal(data, c.data) {
		result = "unchanged"
		c.log.Info("the configuration file is what is in force", "file", c.path)
	} else if err = c.reload(data, err); err == nil {
		result = "applied"
		c.log.Info("configuration reloaded", "file", c.path)
	} else {
		result = "refused"
		c.log.Error("the configuration file is refused; the configuration in force stays", "file", c.path, "error", inOneLine(err))
	}
	c.metrics.Result.WithLabelValues(result).Inc()
	c.metrics.Successful.Set(gauge(err == nil))
}

// mostProblems is how many of a file's problems one line of the log names.
const mostProblems = 20

func inOneLine(err error) string {
	lines := strings.Split(err.Error(), "\n")
	if n := len(lines) - mostProblems; n > 0 {
		lines = append(lines[:mostProblems], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(lines, "; ")
}

var errEmptied = errors.New("it has become empty: write {} if the defaults are meant")

func (c *configuration) reload(data []byte, err error) error {
	if err != nil {
		return err
	}
	next, err := config.Parse(c.path, data)
	if err != nil {
		return err
	}
	if next.Empty() && !c.get().Empty() {
		return errEmptied // an editor or a full disk may have done that; nobody means it
	}
	var applies []func()
	for _, prepare := range c.parts {
		apply, err := prepare(next)
		if err != nil {
			return err
		}
		applies = append(applies, apply)
	}
	c.inForce.Store(next.After(c.get(), time.Now()))
	c.data = data
	for _, apply := range applies {
		apply()
	}
	c.warn(next)
	c.sayRestart(next)
	return nil
}

func (c *configuration) warn(cfg *config.Config) {
	for _, warning := range cfg.Warnings() {
		c.log.Warn("the configuration is valid, but", "warning", warning.Error())
	}
}

// sayRestart says which top-level fields are not what the program was started with.
func (c *configuration) sayRestart(next *config.Config) {
	var waiting []string
	was, is := c.started.Message().ProtoReflect(), next.Message().ProtoReflect()
	fields := is.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); !slices.Contains(c.live, f.Name()) && !was.Get(f).Equal(is.Get(f)) {
			waiting = append(waiting, string(f.Name()))
		}
	}
	for _, needsRestart := range c.partly {
		waiting = append(waiting, needsRestart(next)...)
	}
	c.metrics.RestartNeeded.Set(gauge(waiting != nil))
	if waiting != nil {
		c.log.Warn("part of the configuration takes effect only at a restart; the rest is in force", "file", c.path, "fields", waiting)
	}
}

func gauge(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
