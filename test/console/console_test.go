package console

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// TestConsole is a watch of the person on call: nothing, traffic, an upstream to drain, cases to
// reconcile, questions to the rules.
func TestConsole(t *testing.T) {
	l := newLab(t)
	p := open(t, strings.TrimSuffix(l.url, "console/"), desk)
	p.sees("#live-empty", "No traffic has been seen yet")
	p.sees("#live-empty", l.ServiceAddr(0))
	p.accessible("nothing yet")
	p.shot("empty")
	p.click("#live-empty a")
	p.sees("h1:focus", "What if")
	p.click("nav a[href='#ledger']")
	p.sees("#ledger-empty", "Nothing to reconcile")
	p.accessible("an empty ledger")
	p.click("nav a[href='#live']")

	stop := l.traffic(t)
	l.live(t, p)
	l.drain(t, p)
	l.killSwitch(t, p)
	first, second := l.charge(t, "4711", "reset"), l.charge(t, "4712", "status:503")
	l.reconcile(t, p, first, second)
	l.why(t, p, second)
	l.whatIf(t, p, second)
	l.pictures(t, p, second)
	l.more(t, p)
	stop()
	l.settled(t, p)
}

// number reads what a figure of the page says.
func (p *tab) number(selector string) int {
	p.t.Helper()
	return eval[int](p, "Number(document.querySelector("+quote(selector)+").innerText.replaceAll(',', ''))")
}

// live: the figures move, and the budget is drawn.
func (l *lab) live(t *testing.T, p *tab) {
	p.sees("#upstreams", "app")
	before := p.number("#totals .requests b")
	p.wait(fmt.Sprintf("document.querySelector('#totals .requests b').innerText.replaceAll(',', '') > %d", before+5))
	p.wait("document.querySelector('#totals .retries b').innerText > 0")
	p.sees(appCard+" .reasons", "status_not_retryable")
	p.sees("article:has([title=closed])", "max_attempts")
	p.wait("document.querySelector(" + quote(appCard+" path.spent") + ").getAttribute('d').split('L').length > 3")
	p.wait("document.querySelector(" + quote(appCard+" path.reserve") + ").getBBox().height > 10")
	p.sees(appCard+" figcaption", "of 100")
	// The past is looked up with the pointer.
	p.hover(appCard + " svg")
	p.sees(appCard+" .when", ":")

	// It is there at once on another page, from what the service has kept.
	again := open(t, l.url, phone)
	again.wait("document.querySelector(" + quote(appCard+" path.spent") + ")?.getAttribute('d').split('L').length > 3")
	again.noSideways()
}

const appCard = "article:has([title=app])"

// drain: an upstream gets no retry, as Envoy's client sees, until it is undrained.
func (l *lab) drain(t *testing.T, p *tab) {
	if ok, _ := l.retried(); !ok {
		t.Fatal("at first nothing is retried")
	}
	p.click("[aria-label='Drain app']")
	p.sees("#confirm", "Drain app?")
	p.accessible("a confirmation")
	p.shot("confirm")
	p.click("#confirm-no")
	p.wait("!document.querySelector('#confirm').open")
	l.wantDrained(t, false)
	// Asked again before the browser has said that the first question is closed.
	p.click("[aria-label='Drain app']")
	p.run(chromedp.Evaluate[chromedp.Void]("document.querySelector('#confirm').close(); document.querySelector(\"[aria-label='Drain app']\").click()"))
	p.click("#confirm-yes")
	p.sees(appCard+" .chip", "drained")
	l.wantDrained(t, false, "app")
	if ok, reason := l.retried(); ok || reason != "runtime_draining" {
		t.Errorf("drained: retried %v, %s", ok, reason)
	}
	p.sees(appCard+" .reasons", "runtime_draining")
	p.click("[aria-label='Undrain app']")
	p.sees("#confirm", "Undrain app?")
	p.click("#confirm-yes")
	p.sees(appCard+" .chip", "retries on")
	l.wantDrained(t, false)
	if ok, reason := l.retried(); !ok {
		t.Errorf("undrained: %s", reason)
	}
}

func (l *lab) killSwitch(t *testing.T, p *tab) {
	p.click("#kill")
	p.sees("#confirm", "Stop all retries?")
	p.click("#confirm-yes")
	p.sees("#banner", "All retries are stopped")
	p.sees(appCard+" .chip", "stopped")
	l.wantDrained(t, true)
	if ok, reason := l.retried(); ok || reason != "runtime_draining" {
		t.Errorf("stopped: retried %v, %s", ok, reason)
	}
	p.accessible("all stopped")
	p.shot("stopped")
	p.click("#kill")
	p.sees("#confirm", "Allow retries again?")
	p.click("#confirm-yes")
	p.wait("document.querySelector('#banner').hidden")
	l.wantDrained(t, false)
}

func link(caseID string) string { return "#cases a[data-case='" + caseID + "']" }

// reconcile: cases come up, are filtered, read and resolved.
func (l *lab) reconcile(t *testing.T, p *tab, first, second string) {
	p.sees("#open-count", "2")
	p.click("nav a[href='#ledger']")
	p.sees(link(first), "/charge?order=4711")
	third := l.charge(t, "4713", "reset") // while the list is open
	p.sees(link(third), "4713")

	gone := "!document.querySelector(" + quote(link(first)) + ")"
	for _, filter := range []struct{ field, match, miss string }{
		{"upstream", "app", "nobody"}, {"operation", "charge", "refund"},
	} {
		field := "#filter [name=" + filter.field + "]"
		p.write(field, filter.miss)
		p.sees("#ledger-empty", "No case matches")
		p.wait(gone)
		p.write(field, filter.match)
		p.sees(link(first), "4711")
		p.click("#filter [type=reset]")
		p.wait("document.querySelector(" + quote(field) + ").value === ''")
	}
	p.choose("#filter [name=state]", "CASE_STATE_EXECUTED")
	p.wait(gone)
	p.choose("#filter [name=state]", "CASE_STATE_OPEN")
	p.choose("#filter [name=within]", "900")
	p.sees(link(first), "4711")

	p.click(link(first))
	l.wantCase(t, p, first)
	p.accessible("a case")
	p.click("#case .resolve [type=submit]")
	p.sees("#case .problem", "Say what was found")
	p.click("#case [value=CASE_STATE_NOT_EXECUTED]")
	p.write("#case [name=note]", "asked the bank: not there")
	p.click("#case .resolve [type=submit]")
	p.sees("#case .resolved", "Resolved: not executed")
	p.accessible("a resolved case")
	p.shot("resolved")
	p.sees("#case blockquote", "asked the bank: not there")
	p.wait(gone)
	if c := l.get(t, first); c.GetState() != retryv1.CaseState_CASE_STATE_NOT_EXECUTED || c.GetNote() != "asked the bank: not there" || c.GetResolved() == nil {
		t.Errorf("by gRPC: %v", c)
	}
	p.choose("#filter [name=state]", "")
	p.sees(link(first), "not executed")
	p.wait("document.querySelector('#cases li:last-child a').dataset.case === " + quote(first)) // unresolved first
	p.click("#case summary")
	p.click("#case [value=CASE_STATE_EXECUTED]")
	p.write("#case [name=note]", "the bank was wrong")
	p.click("#case .resolve [type=submit]")
	p.sees("#case .resolved", "Resolved: executed")
	if c := l.get(t, first); c.GetState() != retryv1.CaseState_CASE_STATE_EXECUTED || c.GetNote() != "the bank was wrong" {
		t.Errorf("by gRPC: %v", c)
	}
	// What another has resolved shows too.
	if _, err := l.ledger.Resolve(t.Context(), &retryv1.LedgerServiceResolveRequest{CaseId: third, State: retryv1.CaseState_CASE_STATE_GIVEN_UP}); err != nil {
		t.Fatal(err)
	}
	p.sees("#open-count", "1")
	p.sees(link(third), "given up")
	p.choose("#filter [name=state]", "CASE_STATE_OPEN")
	p.sees(link(second), "4712")

	p.run(navigate(l.url + "#ledger/no-such-case"))
	p.sees("#case .problem", "no such case")
	p.forgive("404 (Not Found) " + l.url + "call/retry.v1.LedgerService/Get")
}

// wantCase compares what the page says of a case with the case.
func (l *lab) wantCase(t *testing.T, p *tab, caseID string) {
	t.Helper()
	c := l.get(t, caseID)
	p.sees("#case", caseID)
	for _, want := range []string{c.GetPath(), c.GetRequestId(), c.GetCause(), c.GetOperation(), "non_idempotent", "sent_no_response", "can be sent again"} {
		if !strings.Contains(p.text("#case"), want) {
			t.Errorf("no %q in\n%s", want, p.text("#case"))
		}
	}
	p.wantLadder(t, "#case", c.GetRules())
}

// wantLadder compares a ladder on the page with one of the API.
func (p *tab) wantLadder(t *testing.T, within string, rules []*retryv1.RuleOutcome) {
	t.Helper()
	if len(rules) == 0 {
		t.Fatal("no ladder to compare with")
	}
	decided := false
	for _, r := range rules {
		want, class := "no objection", ""
		if r.GetVerdict() != 0 {
			want = strings.ToLower(strings.TrimPrefix(r.GetVerdict().String(), "VERDICT_"))
			if r.GetReason() != 0 {
				want += " (" + strings.ToLower(strings.TrimPrefix(r.GetReason().String(), "REASON_")) + ")"
			}
			if class = "decides"; decided {
				class, want = "also", "also "+want
			}
			decided = true
		}
		row := fmt.Sprintf("%s [data-rule='%d']", within, r.GetNumber())
		if got := p.text(row + " .says"); got != want {
			t.Errorf("rule %d says %q, want %q", r.GetNumber(), got, want)
		}
		if name := eval[string](p, "document.querySelector("+quote(row+" code")+").textContent"); name != r.GetName() {
			t.Errorf("rule %d is called %q, want %q", r.GetNumber(), name, r.GetName())
		}
		if class != "" && !eval[bool](p, "document.querySelector("+quote(row)+").classList.contains("+quote(class)+")") {
			t.Errorf("rule %d is not shown as one that %s", r.GetNumber(), class)
		}
	}
}

// why: what was decided on a request, by its id.
func (l *lab) why(t *testing.T, p *tab, caseID string) {
	id := l.get(t, caseID).GetRequestId()
	said, err := l.admin.Why(t.Context(), &retryv1.WhyRequest{Id: id})
	if err != nil || len(said.GetDecisions()) != 1 {
		t.Fatalf("%v, %v", said, err)
	}
	p.write("#find input", id)
	p.press(kb.Enter)
	p.sees("#case", "What was decided on")
	p.sees("#case .verdict", "gateway_status")
	p.accessible("why")
	p.shot("why")
	p.wantLadder(t, "#case", said.GetDecisions()[0].GetRules())
	p.click("#case .past-decision a")
	p.sees("#case", caseID)
	p.write("#find input", "nobody's")
	p.click("#find button")
	p.sees("#case", "Nothing is remembered of it")
}

// more: a long ledger comes in pages, and the cases of callers without an Envoy are in it.
func (l *lab) more(t *testing.T, p *tab) {
	const cases = 60
	for i := range cases {
		if _, err := l.decisions.Decide(t.Context(), &retryv1.DecideRequest{Facts: &retryv1.Facts{
			Upstream: "shop", Call: &retryv1.Call{Method: "POST", Path: fmt.Sprintf("/buy/%d", i)}, Attempt: 1,
			Body: &retryv1.Body{Kind: retryv1.BodyKind_BODY_KIND_BYTES}, Deadline: &retryv1.Facts_NoDeadline{},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	p.resize(desk)
	p.run(navigate(l.url + "#ledger"))
	p.write("#filter [name=upstream]", "shop")
	rows := func(n int) string { return fmt.Sprintf("document.querySelectorAll('#cases a').length === %d", n) }
	p.wait(rows(50))
	p.sees("#cases", "/buy/59")
	p.click("#more")
	p.wait(rows(cases))
	p.sees("#cases", "/buy/0")
	p.wait("document.querySelector('#more').hidden")
}

// settled: when nothing happens any more the page and the API agree to the token.
func (l *lab) settled(t *testing.T, p *tab) {
	p.resize(desk)
	p.run(navigate(l.url + "#live"))
	p.hover("h1")
	eventually(t, "the page shows the budget that the API shows", func() bool {
		got, err := l.budgets.Get(t.Context(), &retryv1.BudgetServiceGetRequest{Upstream: "app"})
		if err != nil {
			t.Fatal(err)
		}
		a := got.GetAccount()
		want := fmt.Sprintf("Balance %.1f\nearned %.1f\nreserve %d of 100\nspent %d\nrefused %d\nwindow 10 s: %d first attempts", float64(a.GetEarnedMilli())/1000+float64(a.GetReserveLeft()),
			float64(a.GetEarnedMilli())/1000, a.GetReserveLeft(), a.GetRetries(), a.GetRefused(), a.GetFirstAttempts())
		return strings.HasPrefix(strings.Join(strings.Fields(p.text(appCard+" figcaption")), " "), strings.Join(strings.Fields(want), " "))
	})
}

// pictures are the README's, and show how the page is in other windows.
func (l *lab) pictures(t *testing.T, p *tab, caseID string) {
	for order, fault := range map[string]string{"4714": "garbage", "4715": "fin", "4716": "status:502", "4717": "half-header", "4718": "reset"} {
		l.charge(t, order, fault)
	}
	if os.Getenv("UPDATE") == "1" { // a minute of the past
		p.run(navigate(l.url + "#live"))
		for samples := 0; samples < 28; time.Sleep(time.Second) {
			samples = eval[int](p, "document.querySelector("+quote(appCard+" path.spent")+").getAttribute('d').split('L').length")
		}
	}
	p.run(chromedp.Evaluate[chromedp.Void]("document.querySelector('#find').reset(); document.querySelector('#filter').reset()"))
	for _, view := range []struct{ name, hash, wait string }{
		{"live", "#live", "#upstreams"}, {"ledger", "#ledger/" + caseID, "#case .ladder"}, {"what-if", "#what-if/" + caseID, "#answer .ladder"},
	} {
		p.resize(desk)
		p.run(navigate(l.url + view.hash))
		p.wait("document.querySelector(" + quote(view.wait) + ")?.checkVisibility()")
		p.wait("document.querySelector('#link').dataset.state === 'on'")
		p.noSideways()
		p.shot(view.name)
		for _, w := range []window{{1280, 860, true}, {360, 740, false}, {360, 740, true}, {768, 1024, false}, {1920, 1080, false}} {
			p.resize(w)
			p.noSideways()
			if w.width <= 360 || w.dark {
				p.accessible(fmt.Sprintf("%s in %v", view.name, w))
			}
			if w.width == 360 && !w.dark || w.width == 1280 {
				p.shot(view.name + map[bool]string{true: "-dark", false: "-phone"}[w.dark])
			}
		}
	}
}
