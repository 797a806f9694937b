package app

import (
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// adminPages are the admin listener's pages.
func (s *service) adminPages() *http.ServeMux {
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	pages.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s.console.handle(pages)
	return operatorHandler(pages, s.drain.State, s.flags.Pprof)
}

// operatorHandler adds to the admin listener's pages /readyz, which is 503 from the moment on at which the
// process drains, and, if asked for, Go's profiles.
func operatorHandler(pages http.Handler, state func() decision.RuntimeState, profiles bool) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if state() != decision.RuntimeServing {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
