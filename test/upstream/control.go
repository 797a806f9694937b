package upstream

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// control serves the records and switches of a Server to another process:
//
//	GET  /addrs                    the addresses
//	GET  /hits?id=ID               the hits of ID; &n=N&timeout=D waits until there are N (10s)
//	GET  /effects?id=ID            {"hits": N, "effects": N}
//	GET  /stats                    totals
//	GET  /ca /other-ca             PEM
//	GET  /client-cert /client-key  PEM
//	POST /reset                    forgets all hits
//	POST /late/open /late/shut     the closed port
//	POST /token                    a token endpoint (RFC 6749 section 4.4.3): another token for whoever asks
//
// Every answer carries StartedHeader.
func (s *Server) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /addrs", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, s.addrs) })
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, s.Stats()) })
	mux.HandleFunc("GET /hits", s.controlHits)
	mux.HandleFunc("GET /effects", func(w http.ResponseWriter, r *http.Request) {
		id := r.FormValue("id")
		writeJSON(w, 200, map[string]int{"hits": len(s.Hits(id)), "effects": s.Effects(id)})
	})
	mux.HandleFunc("POST /reset", func(http.ResponseWriter, *http.Request) { s.Reset() })
	for path, act := range map[string]func() error{"open": s.late.Open, "shut": s.late.Shut} {
		mux.HandleFunc("POST /late/"+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := act(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	for path, pem := range map[string][]byte{"ca": s.certs.CA, "other-ca": s.certs.OtherCA,
		"client-cert": s.certs.ClientCert, "client-key": s.certs.ClientKey} {
		mux.HandleFunc("GET /"+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pem) })
	}
	var tokens atomic.Int64
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, 200, map[string]any{"access_token": "token-" + strconv.FormatInt(tokens.Add(1), 10) + "-" + rand.Text(), "token_type": "Bearer", "expires_in": 3600})
	})
	started := strconv.FormatInt(s.rec.start.UnixNano(), 10)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(StartedHeader, started)
		mux.ServeHTTP(w, r)
	})
}

// StartedHeader says when the Server was started, in nanoseconds since 1970: another value, and its
// records are others too.
const StartedHeader = "X-Started"

// controlHits answers 504, with the hits so far, when the wanted number does not come in time.
func (s *Server) controlHits(w http.ResponseWriter, r *http.Request) {
	n, timeout := 0, 10*time.Second
	var err error
	if v := r.FormValue("n"); v != "" {
		n, err = strconv.Atoi(v)
	}
	if v := r.FormValue("timeout"); v != "" && err == nil {
		timeout, err = time.ParseDuration(v)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	hits, err := s.WaitHits(ctx, r.FormValue("id"), n)
	status := http.StatusOK
	if err != nil {
		status = http.StatusGatewayTimeout
	}
	writeJSON(w, status, hits)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
