package console

import (
	"testing"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/test/stack"
)

// TestLostConnection: the page says when its figures stand still, what it could not do, and comes back by
// itself.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.retried()
	p := open(t, l.url, desk)
	p.forgive("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")
	p.sees("#upstreams", "app")
	p.click("[aria-label='Drain app']")
	p.sees("#confirm", "Drain app?")
	l.KillService(0)
	p.sees("#link", "Lost: figures of")
	p.wait("document.querySelector('#announce').textContent.includes('is lost')")
	p.click("#confirm-yes")
	p.sees("#confirm-problem", "Verdict cannot be reached")
	p.wait("document.querySelector('#confirm').open && !document.querySelector('#confirm-yes').disabled")
	p.accessible("a failure in the dialog")
	p.shot("lost")

	l.RestartService(0)
	p.sees("#link", "Live, ")
	p.wait("document.querySelector('#announce').textContent.includes('restarted')")
	p.click("#confirm-yes")
	p.wait("!document.querySelector('#confirm').open")
	l.wantDrained(t, false, "app")
	p.sees(appCard+" .chip", "drained")

	// A process that hangs is lost too: silence is no news.
	l.StopService(0)
	p.sees("#link", "Lost: figures of")
	l.ContinueService(0)
	p.sees("#link", "Live, ")
}

// TestHiddenPage: a page that nobody looks at holds no connection; when somebody does, it has what came
// meanwhile.
func TestHiddenPage(t *testing.T) {
	t.Parallel()
	l := newLab(t, "--shadow", "short")
	if _, err := l.admin.DrainUpstream(t.Context(), &retryv1.DrainUpstreamRequest{Upstream: "app"}); err != nil {
		t.Fatal(err)
	}
	p := open(t, l.url, desk)
	p.sees(appCard+" .chip", "drained")
	hide := func(state string) {
		eval[bool](p, "Object.defineProperty(document, 'visibilityState', {value: "+quote(state)+", configurable: true}) && document.dispatchEvent(new Event('visibilitychange'))")
	}
	hide("hidden")
	p.sees("#link", "Paused")
	l.Do(stack.Request{Host: "short.example"})
	hide("visible")
	p.sees("#link", "Live, ")
	p.sees("article:has([title=short]) .chip", "shadow: nothing is retried")
}
