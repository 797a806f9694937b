// Package console is a page for the person on call: live figures, the ledger, what the rules would say,
// and the switches. The program serves it by itself, on the admin listener; it needs nothing from
// elsewhere. What it shows and does are calls of the gRPC API, in JSON.
package console

import (
	"context"
	"crypto/rand"
	"embed"
	"net/http"
	"sync"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/telemetry"
)

// Path is where the console is on its listener.
const Path = "/console/"

// Options are what the console asks. All but Every are required.
type Options struct {
	Decisions retryv1.DecisionServiceServer
	Budgets   retryv1.BudgetServiceServer
	Ledger    retryv1.LedgerServiceServer
	Admin     retryv1.AdminServiceServer
	// Counts is what was counted since the service started, by upstream.
	Counts func() map[string]*telemetry.Counts
	// Cases is how many uncertain outcomes nobody has resolved.
	Cases func() (open int, lost uint64)
	// Shadow says whether decisions on an upstream's answers change nothing.
	Shadow func(upstream string) bool
	// Draining says whether the process is about to end.
	Draining func() bool
	// DataPlane is where Envoy calls, for whoever has no traffic yet.
	DataPlane string
	// Every is the time between two samples; 0 is two seconds.
	Every time.Duration
}

// Console is the page and what stands behind it. It is safe for concurrent use.
type Console struct {
	options Options
	process string // of this life, so that a page sees a restart
	page    []byte
	calls   map[string]call
	samples *samples
	stalled time.Duration // how long a page may take to read an event, or to send a call

	ended   chan struct{} // closed by Stop
	ending  sync.Once
	viewers chan struct{} // as many as may watch at once
}

// maxViewers bounds the pages that watch at once; each holds a connection.
const maxViewers = 32

//go:embed assets
var assets embed.FS

// New makes a console. Until Run samples, it has no figures.
func New(o Options) (*Console, error) {
	if o.Every <= 0 {
		o.Every = 2 * time.Second
	}
	page, err := page(o)
	if err != nil {
		return nil, err
	}
	return &Console{
		options: o,
		process: rand.Text(),
		page:    page,
		calls:   calls(o),
		samples: newSamples(o.Every),
		stalled: 10 * time.Second,
		ended:   make(chan struct{}),
		viewers: make(chan struct{}, maxViewers),
	}, nil
}

// Run takes samples until Stop, or until ctx ends.
func (c *Console) Run(ctx context.Context) {
	ticker := time.NewTicker(c.options.Every)
	defer ticker.Stop()
	for {
		c.sample(ctx)
		select {
		case <-ctx.Done():
			return
		case <-c.ended:
			return
		case <-ticker.C:
		}
	}
}

// Stop ends Run and every page's stream, so that the listener can close.
func (c *Console) Stop() { c.ending.Do(func() { close(c.ended) }) }

// Handler serves everything under Path.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(c.page)
	})
	mux.Handle("GET "+Path+"assets/", http.StripPrefix(Path, http.FileServerFS(assets)))
	mux.HandleFunc("GET "+Path+"live", c.live)
	mux.HandleFunc("POST "+Path+"call/{service}/{method}", c.call)
	return guard(mux)
}
