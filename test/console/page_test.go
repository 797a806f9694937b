package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// limit is how long anything may take to happen.
const limit = 30 * time.Second

// tab is a page in a tab of its own. What the browser complains of, such as a breach of the page's
// Content-Security-Policy, fails the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	forgiven   []string // parts of complaints that a test provokes
}

type window struct {
	width, height int64
	dark          bool
}

var (
	desk  = window{1280, 860, false}
	phone = window{360, 740, false}
)

func open(t *testing.T, url string, w window) *tab {
	t.Helper()
	p := &tab{t: t}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithListener(func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				p.complain(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
			}
		case *runtime.EventExceptionThrown:
			p.complain((&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
				text, _ := json.Marshal(e.Args)
				p.complain(string(text))
			}
		}
	}))
	p.ctx = ctx
	t.Cleanup(cancel)
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.complaints {
			if !slices.ContainsFunc(p.forgiven, func(part string) bool { return strings.Contains(c, part) }) {
				t.Errorf("the browser complains: %s", c)
			}
		}
	})
	if err := chromedp.Do(ctx); err != nil { // without a limit of its own: the tab lives as long as this context
		t.Fatal(err)
	}
	p.run(command(log.Enable, cdp.Empty{}))
	p.resize(w)
	p.run(chromedp.Navigate(url))
	return p
}

func (p *tab) complain(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = append(p.complaints, text)
}

// forgive lets complaints pass that the test provokes.
func (p *tab) forgive(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgiven = append(p.forgiven, parts...)
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	get(p, chromedp.Steps(actions...))
}

func get[T any](p *tab, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 2*limit)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// command sends one of the protocol's own.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (p *tab) resize(w window) {
	p.t.Helper()
	scheme := "light"
	if w.dark {
		scheme = "dark"
	}
	p.run(chromedp.EmulateViewport(w.width, w.height),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		}))
}

// eval evaluates an expression.
func eval[T any](p *tab, js string) T {
	p.t.Helper()
	return get(p, chromedp.Evaluate[T](js))
}

// promised evaluates an expression that is a promise.
func promised[T any](p *tab, js string) T {
	p.t.Helper()
	return get(p, chromedp.Evaluate[T](js, func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
}

// wait waits until an expression is true.
func (p *tab) wait(js string) {
	p.t.Helper()
	for end := time.Now().Add(limit); ; {
		if eval[bool](p, "Boolean("+js+")") {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("never true: %s\nThe page says:\n%s", js, eval[string](p, "document.body.innerText"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// text is what an element shows.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, "document.querySelector("+quote(selector)+")?.innerText ?? 'there is no '+"+quote(selector))
}

// sees waits until an element shows a text.
func (p *tab) sees(selector, text string) {
	p.t.Helper()
	p.wait("document.querySelector(" + quote(selector) + ")?.checkVisibility() && document.querySelector(" + quote(selector) + ").innerText.includes(" + quote(text) + ")")
}

// click presses the mouse on an element once it is visible.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.wait("document.querySelector(" + quote(selector) + ")?.checkVisibility()")
	p.run(chromedp.Click(chromedp.CSS(selector)))
}

// type_ writes into a field, in the place of what stands there.
func (p *tab) write(selector, text string) {
	p.t.Helper()
	p.wait("document.querySelector(" + quote(selector) + ")?.checkVisibility()")
	p.run(chromedp.Focus(chromedp.CSS(selector)), chromedp.Evaluate[chromedp.Void]("document.activeElement.select()"), chromedp.KeyEvent(text))
}

// choose selects an option as a user's choice does.
func (p *tab) choose(selector, value string) {
	p.t.Helper()
	p.wait("document.querySelector(" + quote(selector) + ")?.checkVisibility()")
	p.run(chromedp.Evaluate[chromedp.Void]("(e => { e.focus(); e.value = " + quote(value) + "; e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true})); })(document.querySelector(" + quote(selector) + "))"))
}

// press sends a key to whatever has the focus.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.run(chromedp.KeyEvent(key))
	}
}

// noSideways checks that the page does not scroll sideways.
func (p *tab) noSideways() {
	p.t.Helper()
	if over := eval[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
		wide := eval[string](p, "[...document.querySelectorAll('main *, header *')].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName+'.'+e.className+' '+e.textContent.slice(0, 40)).slice(0, 5).join('; ')")
		p.t.Errorf("the page is %d px wider than the window: %s", over, wide)
	}
}

// navigate goes to an address; one that differs in its fragment only is no new page.
func navigate(url string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void]("void (location.href = " + quote(url) + ")")
}

// hover moves the mouse to the middle of an element.
func (p *tab) hover(selector string) {
	p.t.Helper()
	at := eval[[]float64](p, "(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); return [b.x + b.width * 0.98, b.y + b.height / 2]; })(document.querySelector("+quote(selector)+"))")
	p.run(chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
}
