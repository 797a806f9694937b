package console

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// tabTo presses the tabulator until an element has the focus, and checks that one can see it.
func (p *tab) tabTo(selector string) {
	p.t.Helper()
	for range 60 {
		p.press(kb.Tab)
		if eval[bool](p, "document.activeElement.matches("+quote(selector)+")") {
			style := "getComputedStyle(document.activeElement)"
			if !eval[bool](p, style+".outlineStyle !== 'none' && parseFloat("+style+".outlineWidth) >= 2") {
				p.t.Errorf("the focus on %s cannot be seen", selector)
			}
			return
		}
	}
	p.t.Fatalf("the tabulator does not lead to %s but to %s", selector, eval[string](p, "document.activeElement.outerHTML.slice(0, 200)"))
}

// space presses the space bar as a keyboard does: one event that both goes down and says the character.
func (p *tab) space() {
	p.t.Helper()
	key := input.DispatchKeyEventParams{Type: kb.KeyDown, Key: " ", Code: "Space", Text: " ", WindowsVirtualKeyCode: 32}
	up := key
	up.Type, up.Text = kb.KeyUp, ""
	p.run(command(input.DispatchKeyEvent, key), command(input.DispatchKeyEvent, up))
}

func (p *tab) focused(selector string) {
	p.t.Helper()
	p.wait("document.activeElement.matches(" + quote(selector) + ")")
}

// TestKeyboard does the whole work without a mouse: drain, resolve, ask.
func TestKeyboard(t *testing.T) {
	l := newLab(t)
	l.retried() // so that the upstream is known
	caseID := l.charge(t, "1", "reset")
	p := open(t, l.url, desk)
	p.sees("#upstreams", "app")

	p.tabTo(".skip")
	p.sees(".skip", "Skip to the content")
	p.press(kb.Enter)
	p.tabTo("#kill") // past the navigation

	p.tabTo("[aria-label='Drain app']")
	p.press(kb.Enter)
	p.focused("#confirm-no") // what does least
	for range 4 {            // the focus does not leave the dialog for the page
		p.press(kb.Tab)
		if !eval[bool](p, "document.activeElement === document.body || document.activeElement.closest('dialog') !== null") {
			t.Errorf("the focus is at %s", eval[string](p, "document.activeElement.outerHTML"))
		}
	}
	p.press(kb.Escape)
	p.wait("!document.querySelector('#confirm').open")
	p.focused("[aria-label='Drain app']") // and comes back
	l.wantDrained(t, false)
	p.press(kb.Enter)
	p.focused("#confirm-no")
	p.tabTo("#confirm-yes")
	p.space()
	p.sees(appCard+" .chip", "drained")
	l.wantDrained(t, false, "app")
	p.focused("[aria-label='Undrain app']")
	p.wait("document.querySelector('#announce').textContent === 'app is drained'") // for those who do not see it

	p.run(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
	for range 20 { // back to the navigation
		if eval[bool](p, "document.activeElement.matches(\"nav a[href='#ledger']\")") {
			break
		}
		p.run(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
	}
	p.press(kb.Enter)
	p.focused("#h-ledger")
	p.sees(link(caseID), "/charge")
	p.tabTo(link(caseID))
	p.press(kb.Enter)
	p.focused("#h-case")
	p.tabTo("#case [name=found]")
	p.space()
	p.press(kb.ArrowDown)
	p.wait("document.querySelector('#case [value=CASE_STATE_NOT_EXECUTED]').checked")
	p.tabTo("#case [name=note]")
	p.press("by keyboard")
	p.tabTo("#case [type=submit]")
	p.press(kb.Enter)
	p.sees("#case .resolved", "Resolved: not executed")
	p.focused("#h-case")
	if c := l.get(t, caseID); c.GetState() != retryv1.CaseState_CASE_STATE_NOT_EXECUTED || c.GetNote() != "by keyboard" {
		t.Errorf("by gRPC: %v", c)
	}

	p.run(navigate(l.url + "#what-if"))
	p.focused("#h-what-if")
	p.tabTo("[data-preset=reset]")
	p.press(kb.Enter)
	p.sees("#answer .verdict", "sent_no_response")
	p.tabTo("#facts [name='call.method']")
	p.run(chromedp.Evaluate[chromedp.Void]("document.activeElement.select()"))
	p.press("GET", kb.Enter)
	p.sees("#answer .verdict", "retry")
}
