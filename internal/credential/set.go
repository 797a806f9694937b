package credential

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/telemetry"
)

// Set holds the source of each upstream that has one.
type Set struct {
	log        *slog.Logger
	metrics    *telemetry.Credentials
	background *background
	byCluster  atomic.Pointer[map[string]*Source]

	mu      sync.Mutex
	entries map[string]entry // by the entry's first cluster
}

// entry is a source and what it was made from.
type entry struct {
	source   *Source
	settings *retryv1.CredentialSource
}

// New makes the sources that the configuration declares, and has each fetch its first token, in the
// background. Close must be called.
func New(cfg *config.Config, metrics *telemetry.Credentials, log *slog.Logger) *Set {
	s := &Set{log: log, metrics: metrics, background: newBackground(), entries: map[string]entry{}}
	s.Update(cfg)
	return s
}

// Source returns the source of Envoy's cluster of that name, nil where none is declared.
func (s *Set) Source(upstream string) *Source { return (*s.byCluster.Load())[upstream] }

// Update puts another configuration in force. A source whose settings and whose entry's first cluster are
// what they were stays, with its tokens. One that is gone still serves those who hold it.
func (s *Set) Update(cfg *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := make(map[string]entry)
	byCluster := make(map[string]*Source)
	for _, cluster := range cfg.Clusters() {
		u := cfg.Upstream(cluster)
		settings := u.Credential()
		if settings == nil {
			continue
		}
		e, made := entries[u.Name()]
		if !made {
			e = s.entries[u.Name()]
			if e.source == nil || !proto.Equal(meaning(e.settings), meaning(settings)) {
				e.source = newSource(u.Name(), settings, s)
			}
			e.settings = settings
			entries[u.Name()] = e
		}
		byCluster[cluster] = e.source
	}
	s.byCluster.Store(&byCluster)
	for name, old := range s.entries {
		if entries[name].source != old.source {
			old.source.retire()
			s.metrics.Forget(name)
		}
	}
	for name, e := range entries {
		if s.entries[name].source != e.source {
			e.source.warm()
		}
	}
	s.entries = entries
}

// meaning is what makes two sources the same.
func meaning(c *retryv1.CredentialSource) *retryv1.CredentialSource {
	c = proto.CloneOf(c)
	c.FirstAttempts = false
	return c
}

// Close ends all fetches and waits for them. After it a source hands out what it has and gets nothing new.
func (s *Set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		e.source.retire()
	}
	s.background.close()
}

// Format writes no more than that it is a set, whatever the verb.
func (s *Set) Format(f fmt.State, _ rune) { io.WriteString(f, "credential sources") }

func newSource(name string, c *retryv1.CredentialSource, set *Set) *Source {
	s := &Source{name: name, scheme: c.GetScheme(), background: set.background, log: set.log, metrics: set.metrics}
	switch settings := c.GetSource().(type) {
	case *retryv1.CredentialSource_Oauth2:
		s.marks = newMarks(name, settings.Oauth2)
		s.grants = &oauth2Grants{settings: settings.Oauth2, scheme: s.scheme, marks: s.marks}
	case *retryv1.CredentialSource_TokenFile:
		s.grants = fileGrants{settings.TokenFile.GetPath()}
	}
	return s
}
