package compose

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// testDashboard runs every query of the dashboard against the Prometheus of this run, as Grafana would, and
// each must return data. Grafana itself may be a stub where its image cannot be had.
func (p *project) testDashboard(t *testing.T) {
	prometheus := "http://" + p.addr(t, "prometheus", 9090)
	type answer struct {
		Status, Error string
		Data          struct {
			Result        []struct{ Value [2]any } // instant and number
			ActiveTargets []struct{ ScrapeURL, Health, LastError string }
			Groups        []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	within(t, time.Minute, "every target is up", func() string {
		var targets answer
		p.getJSON(t, prometheus+"/api/v1/targets", &targets)
		if len(targets.Data.ActiveTargets) < 4 {
			return "too few"
		}
		for _, target := range targets.Data.ActiveTargets {
			if target.Health != "up" {
				return target.ScrapeURL + ": " + target.LastError
			}
		}
		return ""
	})
	var rules answer
	p.getJSON(t, prometheus+"/api/v1/rules", &rules)
	alerts := 0
	for _, group := range rules.Data.Groups {
		for _, rule := range group.Rules {
			alerts++
			if rule.Health != "ok" {
				t.Errorf("alert %s: %s %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if alerts == 0 {
		t.Error("no alerts are loaded")
	}
	queries := dashboardQueries(t)
	within(t, 30*time.Second, "every query of the dashboard returns data", func() string {
		var without []string
		for _, q := range queries {
			var result answer
			p.getJSON(t, prometheus+"/api/v1/query?query="+url.QueryEscape(filled(q.expr)), &result)
			numbers := 0
			for _, sample := range result.Data.Result {
				if sample.Value[1] != "NaN" { // which Grafana shows as nothing
					numbers++
				}
			}
			if numbers == 0 {
				without = append(without, q.panel+": "+q.expr+" "+result.Error)
			}
		}
		return strings.Join(without, "\n")
	})
	t.Logf("%d alerts; %d queries return data", alerts, len(queries))
}

// filled puts in what Grafana would: all upstreams, and ranges that hold some scrapes.
func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "${__rate_interval}", "1m", "$__interval", "15s", "$__range", "5m",
		"${upstream:regex}", ".*", "${upstream}", ".*", "$upstream", ".*").Replace(expr)
}

type query struct{ panel, expr string }

func dashboardQueries(t *testing.T) []query {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "monitoring/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	type panel struct {
		Title   string
		Targets []struct{ Expr string }
		Panels  []json.RawMessage
	}
	var dashboard struct{ Panels []json.RawMessage }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var all []query
	for todo := dashboard.Panels; len(todo) > 0; todo = todo[1:] {
		var p panel
		if err := json.Unmarshal(todo[0], &p); err != nil {
			t.Fatal(err)
		}
		todo = append(todo, p.Panels...)
		for _, target := range p.Targets {
			if strings.Contains(filled(target.Expr), "$") {
				t.Errorf("%s: a variable that nobody fills in: %s", p.Title, target.Expr)
			}
			all = append(all, query{p.Title, target.Expr})
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d queries", len(all))
	}
	return all
}

// testProvisioning: what Grafana reads at its start is what it expects, as far as that can be told without
// it, and leads to files that are there and to the Prometheus of this run.
func (p *project) testProvisioning(t *testing.T) {
	read := func(file string, into any) {
		t.Helper()
		f, err := os.Open(filepath.Join(root, "compose/grafana/provisioning", file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		d := yaml.NewDecoder(f)
		d.KnownFields(true)
		if err := d.Decode(into); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool           `yaml:"isDefault"`
			JSONData                     map[string]any `yaml:"jsonData"`
		}
	}
	read("datasources/prometheus.yml", &sources)
	if len(sources.Datasources) != 1 || sources.APIVersion != 1 {
		t.Fatalf("%+v", sources)
	}
	if s := sources.Datasources[0]; s.Type != "prometheus" || s.Access != "proxy" || s.URL != "http://prometheus:9090" || !s.IsDefault {
		t.Errorf("%+v", s)
	}
	var dashboards struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type      string
			DisableDeletion bool `yaml:"disableDeletion"`
			Options         struct{ Path string }
		}
	}
	read("dashboards/verdict.yml", &dashboards)
	if len(dashboards.Providers) != 1 || dashboards.Providers[0].Type != "file" || dashboards.APIVersion != 1 {
		t.Fatalf("%+v", dashboards)
	}
	mounts := docker(t, "inspect", "--format", "{{json .HostConfig.Binds}}", p.container(t, "grafana"))
	for _, want := range []string{"monitoring/dashboard.json:" + dashboards.Providers[0].Options.Path + "/", ":/etc/grafana/provisioning:ro"} {
		if !strings.Contains(mounts, want) {
			t.Errorf("no mount %q among %s", want, mounts)
		}
	}
	if _, err := p.get("http://" + p.addr(t, "grafana", 3000) + "/api/health"); err != nil {
		t.Error(err)
	}
	image := docker(t, "inspect", "--format", `{{.Config.Image}}: {{index .Config.Labels "standin"}}`, p.container(t, "grafana"))
	t.Logf("grafana is %s", image)
}
