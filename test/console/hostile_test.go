package console

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/test/stack"
)

const markup = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`

// TestHostileText: whatever a client, an upstream, a caller or a colleague has written is shown as text,
// and neither breaks the page nor reorders it.
func TestHostileText(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	bidi := "pay\u202e\u2066gpj.exe\u200b\x00\x1b[31m"
	long := strings.Repeat("x", 990) + "/end"
	for _, path := range []string{markup, bidi, long} {
		facts := &retryv1.Facts{
			Upstream: path[:min(len(path), 256)], Call: &retryv1.Call{Method: path[:min(len(path), 40)], Path: "/" + path, IdempotencyKeys: []string{path[:min(len(path), 250)]}},
			Ending: &retryv1.Ending{Ending: &retryv1.Ending_Envoy{Envoy: &retryv1.EnvoyReply{Details: path}}},
			Body:   &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_BYTES}, Attempt: 1, Deadline: &retryv1.Facts_NoDeadline{},
		}
		got, err := l.decisions.Decide(t.Context(), &retryv1.DecideRequest{Facts: facts, RequestId: strings.Map(printable, path)[:min(len(strings.Map(printable, path)), 256)]})
		if err != nil || got.GetCaseId() == "" {
			t.Fatalf("%.20q: %v, %v", path, got, err)
		}
		if _, err := l.admin.DrainUpstream(t.Context(), &retryv1.DrainUpstreamRequest{Upstream: facts.GetUpstream()}); err != nil {
			t.Fatal(err)
		}
	}
	l.Do(stack.Request{Method: "POST", Target: "/%3Cimg%20src=x%20onerror=window.hacked=1%3E", Fault: "reset", Header: []string{"x-request-id: " + markup, "idempotency-key: " + markup}})

	p := open(t, l.url, phone)
	wantText := func(selector, text string) {
		t.Helper()
		p.wait("[...document.querySelectorAll(" + quote(selector) + ")].some(e => e.textContent.includes(" + quote(text) + "))")
		if n := eval[int](p, "document.querySelectorAll('main img, main script, main iframe, main style').length"); n > 0 || eval[bool](p, "'hacked' in window") {
			t.Errorf("%s: text became %d elements", selector, n)
		}
		p.noSideways()
	}
	wantText("#upstreams h2", markup)
	wantText("#upstreams h2", `pay\u202e\u2066gpj.exe\u200b\u0000\u001b[31m`)
	p.click("article:nth-child(2) header button") // drained, with a name that is markup or text direction
	p.wait("document.querySelector('#confirm').open")
	p.noSideways()
	p.click("#confirm-no")

	p.click("nav a[href='#ledger']")
	wantText("#cases a", markup)
	wantText("#cases a", "/%3Cimg")
	for i := range eval[int](p, "document.querySelectorAll('#cases a').length") {
		p.run(navigate(l.url + "#ledger"))
		p.click(fmt.Sprintf("#cases li:nth-child(%d) a", i+1))
		p.sees("#case h3", "What the rules said")
		p.noSideways()
		if i == 0 {
			p.click("#case [value=CASE_STATE_GIVEN_UP]")
			p.write("#case [name=note]", markup)
			p.click("#case .resolve [type=submit]")
			wantText("#case blockquote", markup)
			p.click("#case a.back")
			p.choose("#filter [name=state]", "")
			p.wait("document.querySelectorAll('#cases a').length === 4")
			continue
		}
		wantText("#case", "Idempotency key")
	}
	p.click("#case a.button")
	wantText("#answer", "What the rules say")
	p.click("#answer summary")
	wantText("#answer pre", "Explain")
	p.run(navigate(l.url + "#why/" + strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "%20").Replace(markup)))
	wantText("#case h2", markup)
	p.run(navigate(l.url + "#ledger/" + "%E2%80%AE%zz<img>"))
	p.sees("#case .problem", "no such case")
	p.forgive("404 (Not Found) " + l.url + "call/retry.v1.LedgerService/Get")

	// A note that is longer than the ledger takes is refused in words, and not lost.
	p.run(navigate(l.url + "#ledger"))
	p.choose("#filter [name=state]", "CASE_STATE_OPEN")
	p.click("#cases a")
	p.click("#case [value=CASE_STATE_GIVEN_UP]")
	p.write("#case [name=note]", strings.Repeat("é", 600))
	p.click("#case .resolve [type=submit]")
	p.sees("#case .resolve .problem", "note")
	p.wait("document.querySelector('#case [name=note]').value.length === 600")
	p.forgive("400 (Bad Request) " + l.url + "call/retry.v1.LedgerService/Resolve")
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

// TestOtherSites: a page from another origin, even of this machine, can neither do nor read anything; nor
// can one whose name has been made to lead here.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const call = "call/retry.v1.AdminService/DrainUpstream"
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>evil</title><script>loads = 0</script><iframe name=frame onload="loads++"></iframe><iframe id=framed src="%s"></iframe>
<form id=form method=post enctype=text/plain target=frame action="%s"><input name='{"upstream":"app","x":"' value='"}'></form>`, l.url, l.url+call)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-served })

	p := open(t, "http://"+listener.Addr().String()+"/", desk)
	p.forgive("") // this page is meant to be refused
	for _, options := range []string{
		`{method: 'POST', mode: 'no-cors', body: '{"upstream":"app"}'}`,
		`{method: 'POST', mode: 'no-cors', headers: {'Content-Type': 'application/json'}, body: '{"upstream":"app"}'}`,
		`{method: 'POST', mode: 'no-cors', credentials: 'include', body: new Blob(['{"upstream":"app"}'], {type: 'text/plain'})}`,
		`{method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"upstream":"app"}'}`,
		`{method: 'POST', body: '{"upstream":"app"}'}`,
	} {
		p.await("fetch("+quote(l.url+call)+", "+options+")", "opaque", "refused")
		l.wantDrained(t, false)
	}
	if !eval[bool](p, "navigator.sendBeacon("+quote(l.url+call)+", '{\"upstream\":\"app\"}')") {
		t.Error("the browser sends no beacon")
	}
	p.wait("loads === 1") // empty
	eval[bool](p, "document.querySelector('#form').submit() || true")
	p.wait("loads === 2") // with the answer
	p.await("fetch("+quote(l.url)+")", "refused")
	p.await("fetch("+quote(l.url+"live")+")", "refused")
	p.await("new Promise((done, failed) => { const e = new EventSource("+quote(l.url+"live")+"); e.onopen = () => done({type: 'open'}); e.onerror = failed; })", "refused")
	p.await("import("+quote(l.url+"assets/main.js")+")", "refused")
	// It may not be put into a frame, where a click could be led to it.
	if got := eval[string](p, "(() => { try { return document.querySelector('#framed').contentWindow.document.title } catch (e) { return e.name } })()"); got != "SecurityError" {
		t.Errorf("the frame: %s", got)
	}
	complained := func(word string) func() bool {
		return func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return strings.Contains(strings.Join(p.complaints, "\n"), word)
		}
	}
	eventually(t, "the browser to refuse the frame", complained("frame-ancestors"))
	l.wantDrained(t, false)

	// rebound.example leads to 127.0.0.1, as its owner wishes.
	rebound := strings.Replace(l.url, "127.0.0.1", "rebound.example", 1)
	q := open(t, rebound, desk)
	q.forgive("421", "favicon.ico")
	q.sees("body", "open the console by an IP address or as localhost")
	q.await(`fetch('/console/`+call+`', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"upstream":"app"}'}).then(r => ({type: r.status}))`, "421")
	l.wantDrained(t, false)
	l.wantLocalhost(t)
}

// await waits for a promise: its value's type, or that it was refused, is one of the words.
func (p *tab) await(promise string, want ...string) {
	p.t.Helper()
	got := promised[string](p, "("+promise+").then(r => String(r.type), () => 'refused')")
	for _, word := range want {
		if got == word {
			return
		}
	}
	p.t.Errorf("%s: %s, want %v", promise, got, want)
}

// wantLocalhost: what is refused to others works under the name that leads nowhere else.
func (l *lab) wantLocalhost(t *testing.T) {
	p := open(t, strings.Replace(l.url, "127.0.0.1", "localhost", 1), desk)
	p.sees("#live-empty", "No traffic")
	p.click("#kill")
	p.click("#confirm-yes")
	p.sees("#banner", "All retries are stopped")
	l.wantDrained(t, true)
}
