package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// accessible runs axe's checks on what is shown.
func (p *tab) accessible(what string) {
	p.t.Helper()
	for _, fault := range p.axe() {
		p.t.Errorf("%s: %s", what, fault)
	}
}

func (p *tab) axe() []string {
	p.t.Helper()
	if !eval[bool](p, "'axe' in window") {
		script, err := os.ReadFile(filepath.Join("..", "..", ".tools", "axe.min.js"))
		if err != nil {
			p.t.Fatalf("%v: make console-test fetches it", err)
		}
		p.run(chromedp.Evaluate[chromedp.Void](string(script) + "\n;void 0"))
	}
	return promised[[]string](p, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v =>
		v.id + ': ' + v.help + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + ' ' + n.any.map(a => a.message).join(' ')).join(' | ')))`)
}

// TestChecksBite: the checks that the other tests rely on find what they are there for.
func TestChecksBite(t *testing.T) {
	l := newLab(t)
	p := open(t, l.url, desk)
	p.sees("#live-empty", "No traffic")
	if faults := p.axe(); len(faults) > 0 {
		t.Errorf("at first %q", faults)
	}
	p.run(chromedp.Evaluate[chromedp.Void](`{
		const p = document.createElement('p'), i = document.createElement('input'), s = document.createElement('script');
		p.textContent = 'cannot be read'; p.style.color = '#ddd'; p.style.background = '#fff';
		document.querySelector('main').append(p, i);
		document.querySelector('main').append(document.createElement('img'));
	}`))
	faults := strings.Join(p.axe(), "\n")
	for _, want := range []string{"color-contrast", "label", "image-alt"} {
		if !strings.Contains(faults, want) {
			t.Errorf("axe does not find %s in\n%s", want, faults)
		}
	}
	for name, breach := range map[string]string{
		"TrustedScript":    "{ try { const e = document.createElement('p'); e.setAttribute('onclick', 'window.hacked = 1'); document.body.append(e); e.click(); } catch (e) { console.error(e.message) } }",
		"style-src 'self'": "document.body.setAttribute('style', 'color: red')",
		"connect-src":      "fetch('http://127.0.0.1:1/').catch(() => {})",
		"img-src 'self'":   "{ const e = document.createElement('img'); e.src = 'http://127.0.0.1:1/x.png'; document.body.append(e); }",
		"TrustedHTML":      "{ try { document.body.innerHTML = '<b>x</b>' } catch (e) { console.error(e.message) } }",
	} {
		p.run(chromedp.Evaluate[chromedp.Void](breach))
		eventually(t, "the browser to complain of "+name, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return strings.Contains(strings.Join(p.complaints, "\n"), name)
		})
	}
	if eval[bool](p, "'hacked' in window") {
		t.Error("an inline handler has run")
	}
	p.forgive("")
}
