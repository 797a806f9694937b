package credential

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

const (
	clientSecret = "s3cret-of-the-client"
	tokenPrefix  = "t0ken-"
)

// endpoint is a token endpoint. It issues tokenPrefix-1, -2 and so on, one for each request.
type endpoint struct {
	*httptest.Server
	requests atomic.Int64
	answer   atomic.Value // http.HandlerFunc: instead of a token
}

func newEndpoint(t testing.TB) *endpoint {
	e := new(endpoint)
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := e.requests.Add(1)
	if answer, ok := e.answer.Load().(http.HandlerFunc); ok && answer != nil {
		answer(w, r)
		return
	}
	issue(w, fmt.Sprintf(`{"access_token":"%s%d","token_type":"Bearer","expires_in":3600}`, tokenPrefix, n))
}

func (e *endpoint) answers(h http.HandlerFunc) { e.answer.Store(h) }

func issue(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}

// fixture is a set of sources and everything that it has printed.
type fixture struct {
	*Set
	log      *buffer
	registry *prometheus.Registry
	secret   string // the client secret's file
}

// start makes the sources of a configuration in which SECRET stands for the client secret's file.
func start(t testing.TB, yaml string) *fixture {
	t.Helper()
	f := &fixture{log: new(buffer), registry: prometheus.NewRegistry(), secret: write(t, clientSecret+"\n")}
	f.Set = New(parse(t, strings.ReplaceAll(yaml, "SECRET", f.secret)), telemetry.NewCredentials(f.registry),
		slog.New(slog.NewJSONHandler(f.log, nil)))
	t.Cleanup(f.Close)
	return f
}

func parse(t testing.TB, yaml string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("f.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// oauth is a configuration of one cluster "app", with more fields of the oauth2 block.
func oauth(url, more string) string {
	return `upstreams: [{clusters: [app], credential: {oauth2: {token_url: "` + url +
		`", allow_http: true, client_id: me, client_secret_file: "SECRET", timeout: 20s` + more + `}}}]`
}

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	writeTo(t, path, content)
	return path
}

func writeTo(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func current(t *testing.T, s *Source) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	authorization, err := s.Current(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return authorization
}

func refresh(t *testing.T, s *Source, rejected string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.Refresh(ctx, rejected)
}

// forgive ends the pauses, which TestPauses is about.
func forgive(s *Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetching, s.refusing = pause{}, pause{}
}

// eventually fails the test if what is not so in time.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
