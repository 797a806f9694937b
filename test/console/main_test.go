// Package console presses every button of the web console in a real Chromium, in front of the real
// Verdict, Envoy and upstream.
package console

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/verdictproxy/verdict/test/stack"
)

var (
	extproc string          // the service's binary
	browser context.Context // of one Chromium, for all tests
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run fails where anything that the tests need is missing: no test of this package is ever skipped.
func run(m *testing.M) int {
	if binary := os.Getenv(alone); binary != "" {
		if err := elsewhere(binary); err != nil {
			return fail(err)
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "verdict-console-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := stack.FindEnvoy(stack.EnvoyVersion); err != nil {
		return fail(err)
	}
	if extproc, err = stack.BuildExtproc(dir); err != nil {
		return fail(err)
	}
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		chromium = "chromium"
	}
	if chromium, err = exec.LookPath(chromium); err != nil {
		return fail(fmt.Errorf("%w: install Debian's chromium, or set CHROMIUM=/path/to/it", err))
	}
	var stop context.CancelFunc
	if browser, stop, err = startBrowser(chromium, dir+"/profile"); err != nil {
		return fail(err)
	}
	defer stop()
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "console:", err)
	return 1
}

// startBrowser starts a Chromium that talks to nobody but the tests' own servers.
func startBrowser(path, profile string) (context.Context, context.CancelFunc, error) {
	allocator, release := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true), chromedp.Flag("lang", "en"),
		chromedp.Flag("host-resolver-rules", "MAP rebound.example 127.0.0.1, MAP *.google.com ~NOTFOUND, MAP *.googleapis.com ~NOTFOUND"))
	ctx, cancel := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		release()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return ctx, func() { cancel(); release() }, nil
}
