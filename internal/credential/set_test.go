package credential

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/verdictproxy/verdict/internal/config"
)

// A reload keeps the tokens of what has not changed, and takes back what is gone.
func TestUpdate(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	secret := write(t, clientSecret)
	entry := func(clusters, more string) string {
		return `
- clusters: ` + clusters + `
  credential: {oauth2: {token_url: "` + e.URL + `", allow_http: true, client_id: me, client_secret_file: "` + secret + `", timeout: 20s` + more
	}
	f := start(t, "upstreams:"+entry("[a, a2]", "}}")+entry("[b]", "}}")+entry("[c]", "}}"))
	a, b, c := f.Source("a"), f.Source("b"), f.Source("c")
	if a == nil || f.Source("a2") != a || b == a || c == b {
		t.Fatal("not one source for each entry")
	}
	tokens := []string{current(t, a), current(t, b), current(t, c)}
	if n := e.requests.Load(); n != 3 {
		t.Errorf("%d requests", n)
	}
	f.Update(parse(t, "defaults: {max_attempts: 5}\nupstreams:"+
		entry("[a, a3]", "}, first_attempts: true}")+entry("[c]", ", scopes: [more]}}")+"\n- clusters: [d]"))
	if f.Source("a") != a || f.Source("a3") != a || current(t, a) != tokens[0] {
		t.Error("a source that has not changed is another")
	}
	if f.Source("a2") != nil || f.Source("b") != nil || f.Source("d") != nil {
		t.Error("an upstream without a credential has one")
	}
	if f.Source("c") == c || f.Source("c").Recognize(tokens[2]) != NotOurs {
		t.Error("a source that has changed is the same")
	}
	current(t, f.Source("c"))
	if n := e.requests.Load(); n != 4 {
		t.Errorf("%d requests, want one more", n)
	}
	// Streams that began before the reload still hold it.
	if current(t, b) != tokens[1] || refresh(t, b, tokens[1]) != nil || current(t, b) == tokens[1] {
		t.Error("a source that is gone leaves those who hold it without a credential")
	}
	var text strings.Builder
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		text.WriteString(family.String())
	}
	if strings.Contains(text.String(), `"b"`) || !strings.Contains(text.String(), `"a"`) {
		t.Errorf("the metrics tell of what is gone:\n%s", &text)
	}
	f.Update(config.Default())
	if f.Source("a") != nil {
		t.Error("still there")
	}
}

// The first token is fetched before anybody needs it, and a source that cannot work says so.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	f := start(t, oauth(e.URL, ""))
	eventually(t, "a token", func() bool { return f.Source("app").Recognize("Bearer "+tokenPrefix+"1") == Latest })
	f = start(t, tokenFile("/no/such/token"))
	eventually(t, "a line", func() bool { return strings.Contains(f.log.String(), "open /no/such/token: no such file") })
}

// At the end nothing is fetched, nobody is left waiting, and nothing runs on (TestMain looks).
func TestClose(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	asked := make(chan struct{}, 1)
	hanging := hang(t)
	f := start(t, oauth(e.URL, ""))
	s := f.Source("app")
	first := current(t, s)
	e.answers(func(w http.ResponseWriter, r *http.Request) { asked <- struct{}{}; hanging(w, r) })
	waiting := make(chan error)
	go func() { waiting <- s.Refresh(context.Background(), first) }()
	<-asked
	f.Close()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("who waited got %v", err)
	}
	if err := refresh(t, s, first); !errors.Is(err, ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	if current(t, s) != first {
		t.Error("what there is has gone")
	}
	if f.log.String() != "" {
		t.Errorf("an end is no failure: %s", f.log)
	}
	f.Close()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	f := start(t, oauth(e.URL, ""))
	s := f.Source("app")
	first := current(t, s)
	e.answers(status(401, `{"error":"invalid_client"}`))
	refresh(t, s, first)
	e.answers(says(`{"access_token":"` + strings.TrimPrefix(first, "Bearer ") + `","expires_in":600}`))
	forgive(s)
	refresh(t, s, first)
	e.answers(says(goodAnswer))
	forgive(s)
	refresh(t, s, first)
	want := `
# HELP verdict_credential_fetches_total Credentials that were asked for at an upstream's source, by what came of it.
# TYPE verdict_credential_fetches_total counter
verdict_credential_fetches_total{result="ok",upstream="app"} 2
verdict_credential_fetches_total{result="refused",upstream="app"} 1
verdict_credential_fetches_total{result="same_token",upstream="app"} 1
`
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), "verdict_credential_fetches_total"); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(f.registry)
	if err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if n, err := testutil.GatherAndCount(f.registry); err != nil || n != 5 {
		t.Errorf("%d series, %v", n, err)
	}
}
