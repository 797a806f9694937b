package app

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/verdictproxy/verdict/internal/config"
)

const (
	nothingDeclared = "# nothing\ndefaults: {}\n"
	strictPut       = "upstreams:\n- clusters: [app]\n  operations: [{pattern: PUT /pay, idempotency: non_idempotent}]\n"
)

// reloading is a program with a configuration file.
type reloading struct {
	*program
	*testing.T
	path string
}

func serveFile(t *testing.T, content string, args ...string) reloading {
	t.Helper()
	path := filepath.Join(t.TempDir(), "verdict.yaml")
	r := reloading{nil, t, path}
	r.put(content)
	r.program = serve(t, append(args, "--config="+path, "--drain-time=0s")...)
	return r
}

func (r reloading) put(content string) {
	r.Helper()
	if err := os.WriteFile(r.path+".new", []byte(content), 0o600); err != nil {
		r.Fatal(err)
	}
	if err := os.Rename(r.path+".new", r.path); err != nil {
		r.Fatal(err)
	}
}

// logs waits until the log has the words, in one line, n times.
func (r reloading) logs(n int, words ...string) {
	r.Helper()
	r.wait(r.T, "the log says "+strings.Join(words, " ... "), func() bool {
		lines := 0
		for line := range strings.Lines(r.log.String()) {
			there := true
			for _, word := range words {
				there = there && strings.Contains(line, word)
			}
			if there {
				lines++
			}
		}
		return lines == n
	})
}

// metrics waits until each line is there.
func (r reloading) metrics(lines ...string) {
	r.Helper()
	for _, line := range lines {
		r.wait(r.T, "the metrics say "+line, func() bool { return strings.Contains(r.get(r.T, "/metrics"), line+"\n") })
	}
}

// wantStrict asks whether a PUT /pay that was reset is ambiguous, or may be sent again.
func (r reloading) wantStrict(strict bool) {
	r.Helper()
	want := map[bool]string{true: "VERDICT_AMBIGUOUS", false: "VERDICT_RETRY"}[strict]
	code, out, errs := command(r.T, "decide", "--server="+r.admin, "--dry-run", "--upstream=app", "--method=PUT", "--path=/pay",
		"--body=bytes", "--deadline=none", "--stage=connection_reset")
	if code != 0 || !strings.Contains(out, want) {
		r.Errorf("exit code %d, no %s in %s%s", code, want, out, errs)
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	r := serveFile(t, nothingDeclared)
	r.wantStrict(false)
	r.metrics("verdict_config_last_reload_successful 1", `verdict_config_reloads_total{result="applied"} 0`)

	r.put(strictPut)
	r.logs(1, `msg="configuration reloaded"`, "file="+r.path)
	r.wantStrict(true)

	// One line with every place; what was in force stays, and the process goes on as ready as it was.
	r.put("defaults:\n  max_attempts: 0\n  no_such_field: 1\n")
	r.logs(1, "level=ERROR", "is refused", r.path+":3:3: unknown field", "stays")
	r.put("defaults:\n  max_attempts: 0\n  ambiguous_status: 400\n")
	r.logs(1, "level=ERROR", r.path+":2:17: ", "; "+r.path+":3:21: ")
	r.metrics("verdict_config_last_reload_successful 0", `verdict_config_reloads_total{result="refused"} 2`)
	if body := r.get(t, "/readyz"); body != "ok\n" {
		t.Errorf("readyz: %q", body)
	}
	r.wantStrict(true)

	r.put(strictPut)
	r.logs(1, "is what is in force")
	r.metrics("verdict_config_last_reload_successful 1", `verdict_config_reloads_total{result="unchanged"} 1`)

	// Nobody means a file that is gone, or has become empty.
	r.put("# defaults:\n\n")
	r.logs(1, "level=ERROR", "has become empty")
	r.wantStrict(true)
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.logs(1, "level=ERROR", "no such file")
	r.wantStrict(true)
	r.put("{}")
	r.logs(2, "configuration reloaded")
	r.wantStrict(false)
	r.metrics("verdict_config_last_reload_successful 1", `verdict_config_reloads_total{result="applied"} 2`, `verdict_config_reloads_total{result="refused"} 4`)
}

// What takes effect only at a restart is said, and the rest is in force.
func TestReloadNeedsRestart(t *testing.T) {
	t.Parallel()
	r := serveFile(t, nothingDeclared)
	r.put(strictPut + "budget: {backend: redis, address: \"127.0.0.1:1\"}\n")
	r.logs(1, "level=WARN", "only at a restart", "fields=[budget]")
	r.wantStrict(true)
	r.metrics("verdict_config_restart_needed 1", "verdict_config_last_reload_successful 1")
	r.put(nothingDeclared + "longest_request: 10s\n")
	r.logs(2, "configuration reloaded")
	r.metrics("verdict_config_restart_needed 0")
	r.logs(1, "only at a restart")
}

// SIGHUP asks at once, and says what became of it even where nothing has changed. (Every program in this
// process gets it: no other test may run beside this one.)
func TestReloadAtHangup(t *testing.T) {
	r := serveFile(t, nothingDeclared)
	without := serve(t, "--drain-time=0s")
	for n := range 3 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		r.logs(n+1, "is what is in force")
	}
	reloading{without, t, ""}.logs(3, "no configuration file")
	r.put(strictPut)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	r.logs(1, "configuration reloaded")
	r.wantStrict(true)
}

// What was declared before the start counts as before a reload.
func TestConfigBefore(t *testing.T) {
	t.Parallel()
	second := func(r reloading) string {
		_, out, errs := command(t, "decide", "--server="+r.admin, "--dry-run", "--upstream=app", "--method=PUT", "--path=/pay", "--body=bytes", "--deadline=10s",
			"--stage=connect", "--attempt=2", "--executed=not_executed", "--certainty=certain")
		return out + errs
	}
	if out := second(serveFile(t, strictPut)); !strings.Contains(out, "VERDICT_RETRY") {
		t.Errorf("nothing before: %s", out)
	}
	if out := second(serveFile(t, strictPut, "--config-before="+file(t, nothingDeclared))); !strings.Contains(out, "REASON_EARLIER_ATTEMPT") {
		t.Errorf("looser before: %s", out)
	}
	code, _, errs := command(t, "serve", "--data-plane=127.0.0.1:0", "--admin=127.0.0.1:0", "--config-before="+file(t, "defaults: 1"))
	if code != 1 || !strings.Contains(errs, ":1:11: ") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// Every part is asked before anything changes; one that refuses keeps all of them as they were.
func TestReloadOfParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verdict.yaml")
	var log buffer
	if err := os.WriteFile(path, []byte(nothingDeclared), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfiguration(&ServeCmd{Config: path}, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	applied, refuse := 0, errors.New("no such certificate")
	c.onReload(func(next *config.Config) (func(), error) {
		if next == c.get() {
			t.Error("it is in force before all parts were asked")
		}
		return func() { applied++ }, nil
	}, "budget")
	c.onReload(func(*config.Config) (func(), error) { return func() { applied++ }, refuse })
	before := c.get()
	c.changed([]byte(strictPut), nil)
	if applied != 0 || c.get() != before || !strings.Contains(log.String(), "no such certificate") {
		t.Errorf("%d applied; the log: %s", applied, &log)
	}
	c.changed([]byte("upstreams:\n"+strings.Repeat("- {max: 1}\n", 1000)), nil)
	if !strings.Contains(log.String(), ":11:4: unknown field") || strings.Contains(log.String(), ":12:3: ") || !strings.Contains(log.String(), "; and 1980 more") {
		t.Errorf("the log is endless, or says too little: %.5000s", &log)
	}
	refuse = nil
	c.changed([]byte(strictPut+"budget: {key_prefix: x, backend: redis, address: \"r:1\"}"), nil)
	if applied != 2 || c.get() == before || strings.Contains(log.String(), "restart") {
		t.Errorf("%d applied; the log: %s", applied, &log)
	}
}
