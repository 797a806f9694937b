package upstream

import (
	"net/http"
	"slices"
	"sync"
)

// guard knows which credentials the fault "guarded" lets in.
type guard struct {
	mu       sync.Mutex
	accepted []string
}

// Accept replaces the values of the header authorization that the fault "guarded" lets in; none means
// that nobody gets in.
func (s *Server) Accept(authorizations ...string) {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.guard.accepted = slices.Clone(authorizations)
}

// admits is asked for a header with exactly one line.
func (g *guard) admits(header http.Header) bool {
	lines := header["Authorization"]
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(lines) == 1 && slices.Contains(g.accepted, lines[0])
}

// challenge turns a guarded entry into the 401 that it plays for anybody who is not let in.
func (g *guard) challenge(f *fault, header http.Header) {
	if f.spec == specs["guarded"] && !g.admits(header) {
		f.status = http.StatusUnauthorized
		f.fields = append(f.fields, field{"www-authenticate", "Bearer"})
	}
}
