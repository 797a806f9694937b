package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/decision"
)

func TestOperatorPages(t *testing.T) {
	state := decision.RuntimeServing
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	for _, c := range []struct {
		state    decision.RuntimeState
		profiles bool
		path     string
		status   int
		body     string
	}{
		{decision.RuntimeServing, false, "/readyz", 200, "ok"},
		{decision.RuntimeDraining, false, "/readyz", 503, "draining"},
		{decision.RuntimeDraining, false, "/healthz", 200, "page"},
		{decision.RuntimeServing, false, "/debug/pprof/", 200, "page"},
		{decision.RuntimeServing, true, "/debug/pprof/", 200, "goroutine"},
		{decision.RuntimeServing, true, "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
	} {
		state = c.state
		w := httptest.NewRecorder()
		operatorHandler(pages, func() decision.RuntimeState { return state }, c.profiles).
			ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s, %v, profiles %v: %d, no %q in %.200s", c.path, c.state, c.profiles, w.Code, c.body, w.Body)
		}
	}
}
