package extproc

import "github.com/verdictproxy/verdict/pkg/decision"

// runtime says whether a wait for a retry towards an upstream may begin.
func (s *Server) runtime(upstream string) decision.RuntimeState {
	if s.Runtime != nil {
		if state := s.Runtime(upstream); state != decision.RuntimeServing {
			return state
		}
	}
	return s.Drain.State()
}
