package upstream

import (
	"net/http"
	"sync"
)

// guard knows which credentials the fault "guarded" lets in.
type guard struct {
	mu       sync.Mutex
	accepted map[string]bool
}

// Accept lets the fault "guarded" let this value of the header authorization in, Reject ends that.
func (s *Server) Accept(authorization string) { s.guard.set(authorization, true) }

// Reject is the opposite of Accept.
func (s *Server) Reject(authorization string) { s.guard.set(authorization, false) }

func (g *guard) set(authorization string, accepted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.accepted == nil {
		g.accepted = make(map[string]bool)
	}
	g.accepted[authorization] = accepted
}

// admits is asked for a header with exactly one line.
func (g *guard) admits(header http.Header) bool {
	lines := header["Authorization"]
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(lines) == 1 && g.accepted[lines[0]]
}

// challenge turns a guarded entry into the 401 that it plays for anybody who is not let in.
func (g *guard) challenge(f *fault, header http.Header) {
	if f.spec == specs["guarded"] && !g.admits(header) {
		f.status = http.StatusUnauthorized
		f.fields = append(f.fields, field{"www-authenticate", "Bearer"})
	}
}
