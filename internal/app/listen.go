package app

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"

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

// place is a listener: its name in the configuration, what is spoken there, and what it is worth.
type place struct {
	name      string
	protocols []string
	// worth is what whoever reaches it can do.
	worth string
}

var (
	dataPlanePlace = place{"data_plane", []string{"h2"}, "fund and spend retry budgets, and enter uncertain outcomes"}
	apiPlace       = place{"api", []string{"h2"}, "fund and spend retry budgets, and read and resolve uncertain outcomes"}
	adminPlace     = place{"admin", []string{"h2", "http/1.1"}, "deny all retries, fund and spend retry budgets, read what was decided, and resolve uncertain outcomes"}
)

// opened are the listeners. api is nil where there is none.
type opened struct {
	dataPlane, admin, api net.Listener

	secured []*listeners.TLS
}

// listen opens them all, or none.
func (c *ServeCmd) listen(cfg *config.Config, metrics *telemetry.Listeners, log *slog.Logger) (o *opened, err error) {
	o = &opened{}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	open := func(p place, address string, settings *retryv1.Listener) (net.Listener, error) {
		l, err := listeners.Open(address, os.FileMode(c.SocketMode))
		if err != nil {
			return nil, err
		}
		warnIfOpen(p, l, settings, log)
		if settings.GetTls() == nil {
			return l, nil
		}
		secured, err := listeners.NewTLS(l, p.name, settings, p.protocols, listeners.Options{Log: log, Refused: metrics.Refused})
		if err != nil {
			l.Close()
			return nil, err
		}
		metrics.NotAfter(p.name, secured.NotAfter)
		o.secured = append(o.secured, secured)
		return secured, nil
	}
	settings := cfg.Listeners()
	if o.dataPlane, err = open(dataPlanePlace, c.DataPlane, settings.GetDataPlane()); err != nil {
		return o, err
	}
	if o.admin, err = open(adminPlace, c.Admin, settings.GetAdmin()); err != nil {
		return o, err
	}
	if c.API != "" {
		o.api, err = open(apiPlace, c.API, settings.GetApi())
	} else if settings.GetApi() != nil {
		log.Warn("listeners.api holds for nothing: there is no --api")
	}
	return o, err
}

// warnIfOpen speaks of a listener that other machines may reach, and that does not ask them who they are.
func warnIfOpen(p place, l net.Listener, settings *retryv1.Listener, log *slog.Logger) {
	if !listeners.Remote(l) || settings.GetTls().GetClientCaFile() != "" {
		return
	}
	what := "a plaintext listener"
	if settings.GetTls() != nil {
		what = "a listener that asks for no client certificate"
	}
	log.Warn(what+" is reachable from other machines: whoever reaches it can "+p.worth, "listener", p.name, "address", l.Addr().String())
}

func (o *opened) close() {
	for _, l := range []net.Listener{o.dataPlane, o.admin, o.api} {
		if l != nil {
			l.Close()
		}
	}
}
