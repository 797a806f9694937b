package app

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/listeners"
	"github.com/verdictproxy/verdict/internal/telemetry"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// SocketMode is a file's permissions, in octal.
type SocketMode os.FileMode

// UnmarshalText reads 0 to 777.
func (m *SocketMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q is no octal number up to 777", text)
	}
	*m = SocketMode(n)
	return nil
}

// place is a listener: its name and settings in the configuration, what is spoken there, and what whoever
// reaches it can do.
type place struct {
	name      string
	settings  func(*retryv1.Listeners) *retryv1.Listener
	protocols []string
	worth     string
}

var (
	dataPlanePlace = place{"data_plane", (*retryv1.Listeners).GetDataPlane, []string{"h2"},
		"fund and spend retry budgets, and enter uncertain outcomes"}
	apiPlace = place{"api", (*retryv1.Listeners).GetApi, []string{"h2"},
		"fund and spend retry budgets, and read and resolve uncertain outcomes"}
	adminPlace = place{"admin", (*retryv1.Listeners).GetAdmin, []string{"h2", "http/1.1"},
		"deny all retries, fund and spend retry budgets, read what was decided, and resolve uncertain outcomes"}
)

// opened are the listeners. api is nil where there is none.
type opened struct {
	dataPlane, admin, api net.Listener

	places  []place
	secured map[string]*listeners.TLS // by name; a plaintext listener is not there
	asks    map[string]bool           // those that ask for client certificates
	log     *slog.Logger
}

// listen opens them all, or none.
func (c *ServeCmd) listen(cfg *config.Config, metrics *telemetry.Listeners, log *slog.Logger) (o *opened, err error) {
	o = &opened{secured: make(map[string]*listeners.TLS), asks: make(map[string]bool), log: log}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	open := func(p place, address string) (net.Listener, error) {
		l, err := listeners.Open(address, os.FileMode(c.SocketMode))
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", strings.ReplaceAll(p.name, "_", "-"), err)
		}
		o.places = append(o.places, p)
		settings := p.settings(cfg.Listeners())
		p.warnIfOpen(l, settings, log)
		if settings.GetTls() == nil {
			return l, nil
		}
		secured, err := listeners.NewTLS(l, p.name, settings, p.protocols, listeners.Options{Log: log, Refused: metrics.Refused})
		if err != nil {
			l.Close()
			return nil, err
		}
		metrics.NotAfter(p.name, secured.NotAfter)
		o.secured[p.name], o.asks[p.name] = secured, asks(settings)
		return secured, nil
	}
	if o.dataPlane, err = open(dataPlanePlace, c.DataPlane); err != nil {
		return o, err
	}
	if o.admin, err = open(adminPlace, c.Admin); err != nil {
		return o, err
	}
	if c.API != "" {
		o.api, err = open(apiPlace, c.API)
	} else if apiPlace.settings(cfg.Listeners()) != nil {
		log.Warn("listeners.api holds for nothing: there is no --api")
	}
	return o, err
}

// addresses are for the log.
func (o *opened) addresses() []any {
	a := []any{"data_plane", o.dataPlane.Addr().String(), "admin", o.admin.Addr().String()}
	if o.api != nil {
		a = append(a, "api", o.api.Addr().String())
	}
	if len(o.secured) > 0 {
		a = append(a, "tls", slices.Sorted(maps.Keys(o.secured)))
	}
	return a
}

// asks reports whether a client must show a certificate.
func asks(settings *retryv1.Listener) bool { return settings.GetTls().GetClientCaFile() != "" }

// warnIfOpen speaks of a listener that other machines may reach, and that does not ask them who they are.
func (p place) warnIfOpen(l net.Listener, settings *retryv1.Listener, log *slog.Logger) {
	if !listeners.Remote(l) || asks(settings) {
		return
	}
	what := "a plaintext listener"
	if settings.GetTls() != nil {
		what = "a listener that asks for no client certificate"
	}
	log.Warn(what+" is reachable from other machines: whoever reaches it can "+p.worth, "listener", p.name, "address", l.Addr().String())
}

// reload puts other files and allowed clients in force, for new connections.
func (o *opened) reload(next *config.Config) (apply func(), err error) {
	var applies []func()
	for _, p := range o.places {
		settings := p.settings(next.Listeners())
		if o.secured[p.name] == nil || o.waits(p, settings) != "" {
			continue
		}
		apply, err := o.secured[p.name].Prepare(settings)
		if err != nil {
			return nil, err
		}
		applies = append(applies, apply)
	}
	return func() {
		for _, apply := range applies {
			apply()
		}
	}, nil
}

// waits names what of a listener's settings waits for a restart: what would make connections that are open
// already less than what is asked of new ones.
func (o *opened) waits(p place, settings *retryv1.Listener) (field string) {
	switch {
	case (o.secured[p.name] == nil) != (settings.GetTls() == nil):
		return "listeners." + p.name + ".tls"
	case o.asks[p.name] != asks(settings):
		return "listeners." + p.name + ".tls.client_ca_file"
	}
	return ""
}

// needsRestart names what waits for a restart.
func (o *opened) needsRestart(next *config.Config) (fields []string) {
	for _, p := range o.places {
		if field := o.waits(p, p.settings(next.Listeners())); field != "" {
			fields = append(fields, field)
		}
	}
	return fields
}

func (o *opened) close() {
	for _, l := range []net.Listener{o.dataPlane, o.admin, o.api} {
		if l != nil {
			l.Close()
		}
	}
}
