package stack

import (
	"os"
	"path/filepath"
	"syscall"
)

func (s *Stack) serviceConfig() string { return filepath.Join(s.dir, "verdict.yaml") }

// WriteConfig replaces the configuration file of all replicas, by a rename. Options.Config must have been
// given.
func (s *Stack) WriteConfig(yaml string) {
	s.t.Helper()
	file := s.serviceConfig()
	err := os.WriteFile(file+".new", []byte(yaml), 0o644)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		s.t.Fatalf("stack: %v", err)
	}
}

// RemoveConfig removes it.
func (s *Stack) RemoveConfig() {
	s.t.Helper()
	if err := os.Remove(s.serviceConfig()); err != nil {
		s.t.Fatalf("stack: %v", err)
	}
}

// HangUpService sends SIGHUP to the i-th replica.
func (s *Stack) HangUpService(i int) { s.t.Helper(); s.signal(i, syscall.SIGHUP) }
