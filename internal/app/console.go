package app

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/verdictproxy/verdict/internal/console"
	"github.com/verdictproxy/verdict/internal/decisionapi"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// pages are the web console's, or none.
type pages struct{ *console.Console }

// openConsole starts the console where the flag, and the admin listener's address, want it. What it asks
// is what the admin listener's gRPC services answer with.
func (s *service) openConsole() error {
	if !s.flags.wantsConsole(s.listeners.admin.Addr()) {
		return nil
	}
	c, err := console.New(console.Options{
		Decisions: s.api.decisions(),
		Budgets:   &decisionapi.Budgets{Budget: s.api.budget, Grants: s.api.grants},
		Ledger:    &decisionapi.Cases{Ledger: s.api.ledger},
		Admin:     &decisionapi.Admin{Switches: s.api.switches, Recent: s.api.recent, Log: s.log},
		Counts:    s.api.metrics.Counts,
		Cases:     s.api.ledger.Count,
		Shadow:    func(upstream string) bool { return s.flags.shadows(upstream) || s.api.config().Shadow(upstream) },
		Draining:  func() bool { return s.drain.State() != decision.RuntimeServing },
		DataPlane: s.listeners.dataPlane.Addr().String(),
	})
	if err != nil {
		s.listeners.close()
		return err
	}
	s.console = pages{c}
	scheme := "http"
	if s.listeners.secured[adminPlace.name] != nil {
		scheme = "https"
	}
	if address := s.listeners.admin.Addr(); address.Network() == "tcp" {
		s.log.Info("console", "url", scheme+"://"+address.String()+console.Path)
	}
	var sampling sync.WaitGroup
	sampling.Go(func() { c.Run(context.Background()) })
	s.onClose(func() {
		c.Stop()
		sampling.Wait()
	})
	return nil
}

// wantsConsole: by default nobody from another machine finds a console.
func (c *ServeCmd) wantsConsole(admin net.Addr) bool {
	if c.Console != "auto" {
		return c.Console == "on"
	}
	tcp, ok := admin.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

func (p pages) handle(mux *http.ServeMux) {
	if p.Console == nil {
		return
	}
	mux.Handle(console.Path, p.Handler())
	mux.Handle("GET /{$}", http.RedirectHandler(console.Path, http.StatusSeeOther))
}

func (p pages) stop() {
	if p.Console != nil {
		p.Stop()
	}
}
