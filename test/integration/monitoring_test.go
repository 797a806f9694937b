package integration

import (
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
	"github.com/verdictproxy/verdict/test/stack"
)

// TestPromtool: Prometheus's own word on the rules, their tests and the configuration.
func TestPromtool(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml"},
		{"check", "config", "--lint=all", "--lint-fatal", "prometheus.yaml"},
		{"test", "rules", "alerts_test.yaml"},
	} {
		cmd := exec.Command(promtool, args...)
		path, _ := monitoringFile(t, "alerts.yaml")
		cmd.Dir = filepath.Dir(path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}

// TestAlertsAreTested: each alert has a test in which it fires and one in which it does not, and the
// runbook says the same as the alert.
func TestAlertsAreTested(t *testing.T) {
	t.Parallel()
	_, text := monitoringFile(t, "alerts_test.yaml")
	var file struct {
		Tests []struct {
			Silent []struct {
				Name  string `yaml:"alertname"`
				Fires []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
			Firing []struct {
				Expr    string `yaml:"expr"`
				Samples []any  `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	silent, firing := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, s := range test.Silent {
			silent[s.Name] = silent[s.Name] || len(s.Fires) == 0
		}
		for _, f := range test.Firing {
			name := strings.TrimSuffix(strings.TrimPrefix(f.Expr, `ALERTS{alertname="`), `"}`)
			firing[name] = firing[name] || len(f.Samples) > 0
		}
	}
	_, runbook := monitoringFile(t, "README.md")
	for _, a := range alerts(t) {
		if !silent[a.Alert] || !firing[a.Alert] {
			t.Errorf("%s: a test in which it fires: %v, in which it does not: %v", a.Alert, firing[a.Alert], silent[a.Alert])
		}
		if a.Annotations["summary"] == "" || a.Annotations["runbook"] == "" {
			t.Errorf("%s: annotations %v", a.Alert, a.Annotations)
		}
		if row := "| `" + a.Alert + "` | " + a.Annotations["runbook"] + " |\n"; !strings.Contains(string(runbook), row) {
			t.Errorf("monitoring/README.md lacks the row\n%s", row)
		}
	}
	if got, want := strings.Count(string(runbook), "\n| `"), len(alerts(t)); got != want {
		t.Errorf("monitoring/README.md has %d alerts, want %d", got, want)
	}
}

// TestDashboardIsWhole: ids are unique, and each panel asks the data source that the user has chosen.
func TestDashboardIsWhole(t *testing.T) {
	t.Parallel()
	ids := map[int]bool{}
	for _, p := range panels(t) {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: the id %d is not its own", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource["uid"] != "${datasource}" {
			t.Errorf("%s: %d queries to %v", p.Title, len(p.Targets), p.Datasource)
		}
		for _, target := range p.Targets {
			if target.Datasource["uid"] != "${datasource}" || strings.Contains(filledIn(target.Expr), "$") {
				t.Errorf("%s: %q to %v", p.Title, target.Expr, target.Datasource)
			}
		}
	}
}

// monitoringConfig waits next to nothing.
const monitoringConfig = `
defaults: {backoff: {base: 0.005s, max: 0.01s}}
`

// blind is a host on which Envoy writes no facts.
var blind = stack.NewPatch("a host without facts", upstreamLike("blind", "",
	`{typed_per_filter_config: {facts: {"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}}}`))

// TestMonitoring runs every query of the dashboard and of the alerts on a real Prometheus that scrapes a
// real Envoy and Verdict while requests fail: everything that a query reads must be there, each panel
// shows something, and the alerts that the run can bring about are brought about.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t))
	well := start(t, stack.Options{
		Replicas: 2,
		Config:   `budget: {backend: redis, address: "` + server.Address + `"}` + monitoringConfig,
		Patches: []stack.Patch{blind, stack.NewPatch("a deadline of 0.3 s",
			outerHost("deadline", `{timeout: 0.3s}`), upstreamLike("deadline", "", ""))},
	})
	// Its event log cannot be written, so it grants nothing, and its ledger has room for one case.
	ill := start(t, stack.Options{ExtprocArgs: []string{"--event-log", "/dev/full", "--ledger-size", "1"}, Config: monitoringConfig})
	wantOutput(t, true, nil, extproc, "drain", "another", "--server="+strings.TrimPrefix(ill.ServiceAdminURL(0), "http://"))

	port, err := well.Upstream.Reserve("")
	if err != nil {
		t.Fatal(err)
	}
	spare, err := well.Upstream.Reserve("")
	if err != nil {
		t.Fatal(err)
	}
	startSpare(t, spare.Addr())
	host := func(url string) string { return strings.TrimPrefix(url, "http://") }
	p := startPrometheus(t, port.Addr(), map[string][]string{
		"verdict": {host(well.ServiceAdminURL(0)), host(well.ServiceAdminURL(1)), host(ill.ServiceAdminURL(0)), spare.Addr()},
		"envoy":   {well.AdminAddr, ill.AdminAddr},
	})
	waitFor(t, "Prometheus scrapes everything", func() bool { return len(p.values(t, "up == 1")) == 6 })

	// What is looked for, until it was found.
	missing := map[string]string{} // the query, and where it is from
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			query := filledIn(target.Expr)
			missing[query] = "panel " + panel.Title
			for _, s := range p.selectors(t, query) {
				missing[s] = "panel " + panel.Title
			}
		}
	}
	exprs := map[string]string{}
	for _, a := range alerts(t) {
		exprs[a.Alert] = a.Expr
		for _, s := range p.selectors(t, a.Expr) {
			missing[s] = a.Alert
		}
	}
	for _, name := range []string{"VerdictFactsMissing", "VerdictUncertainOutcomesFrequent", "VerdictLedgerLosesCases", "VerdictEventLogBroken", "VerdictBudgetExhausted",
		"VerdictRetriesSwitchedOff", "VerdictConfigRefused", "VerdictCertificateExpires"} {
		missing[exprs[name]] = name
	}
	settle := func(what string, fail func()) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			fail()
			maps.DeleteFunc(missing, func(query, _ string) bool { return len(p.values(t, query)) > 0 })
			if len(missing) == 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: not within a minute", what)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	defer func() {
		for query, from := range missing {
			t.Errorf("%s: no data for %s", from, query)
		}
	}()
	settle("every query has data", func() {
		send(t, well, getting("half-body hold=10ms")) // Envoy lets the client wait for its end
		for _, r := range []stack.Request{
			getting("ok"), getting("503, ok"), getting("404"), posting("reset"),
			{Method: "POST", Host: "blind.example", Fault: "503", Body: "x"}, {Method: "POST", Host: "deadline.example", Fault: "stuck", Body: "x"},
		} {
			_, _ = well.Try(t.Context(), r)
		}
		for range 2 {
			ill.Do(posting("reset"))
			ill.Do(getting("503"))
		}
	})

	for _, name := range []string{"VerdictFailsOpen", "VerdictReplicaUnhealthy", "VerdictBudgetRedisAway", "VerdictLedgerWaits"} {
		missing[exprs[name]] = name
	}
	server.Kill()
	well.StopService(0)
	well.StopService(1)
	_, _ = well.Try(t.Context(), posting("reset")) // Envoy cannot know yet that both hang
	well.ContinueService(1)
	settle("one replica hangs, and Redis is away", func() { _, _ = well.Try(t.Context(), posting("reset")) })

	missing[exprs["VerdictUnreachable"]], missing[exprs["VerdictDown"]] = "VerdictUnreachable", "VerdictDown"
	well.KillService(0)
	well.KillService(1)
	settle("no Verdict is left", func() {})

	// Whatever has happened, no rule could not be evaluated, and no annotation could not be written.
	var rules struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError string
				Alerts                  []struct{ Annotations map[string]string }
			}
		}
	}
	p.ask(t, "/api/v1/rules", &rules)
	seen := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			seen++
			if r.Health != "ok" {
				t.Errorf("%s: %s, %s", r.Name, r.Health, r.LastError)
			}
			for _, a := range r.Alerts {
				if text := a.Annotations["summary"]; text == "" || strings.Contains(text, "<error") {
					t.Errorf("%s: %q", r.Name, text)
				}
			}
		}
	}
	if want := len(alerts(t)); seen != want {
		t.Errorf("%d rules, want %d", seen, want)
	}
}
