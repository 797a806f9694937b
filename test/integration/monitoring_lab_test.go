package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/test/pki"
	"github.com/verdictproxy/verdict/test/stack"
)

// monitoringFile is one of the folder monitoring.
func monitoringFile(t *testing.T, name string) (path string, text []byte) {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(root, "monitoring", name)
	if text, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path, text
}

// alert is one of monitoring/alerts.yaml.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	_, text := monitoringFile(t, "alerts.yaml")
	var file struct {
		Groups []struct {
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// panel is one of monitoring/dashboard.json.
type panel struct {
	ID         int            `json:"id"`
	Type       string         `json:"type"`
	Title      string         `json:"title"`
	Datasource map[string]any `json:"datasource"`
	Targets    []struct {
		Expr       string         `json:"expr"`
		Datasource map[string]any `json:"datasource"`
	} `json:"targets"`
}

func panels(t *testing.T) []panel {
	t.Helper()
	_, text := monitoringFile(t, "dashboard.json")
	var file struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Panels
}

// filledIn puts values in the place of Grafana's variables; another one is an error of the query.
func filledIn(expr string) string {
	return strings.NewReplacer("$__rate_interval", "10s", "$__range", "1m", "$upstream", ".*").Replace(expr)
}

// prometheus is a running one with monitoring/prometheus.yaml but for the targets and its haste.
type prometheus struct {
	url    string
	client *http.Client
}

func startPrometheus(t *testing.T, addr string, targets map[string][]string) *prometheus {
	t.Helper()
	path, text := monitoringFile(t, "prometheus.yaml")
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	config["global"] = map[string]any{"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
	config["rule_files"] = []any{filepath.Join(filepath.Dir(path), "alerts.yaml")}
	for _, job := range config["scrape_configs"].([]any) {
		job := job.(map[string]any)
		name := job["job_name"].(string)
		if len(targets[name]) == 0 {
			t.Fatalf("monitoring/prometheus.yaml: no targets for the job %s", name)
		}
		job["static_configs"] = []any{map[string]any{"targets": targets[name]}}
	}
	if text, _ = yaml.Marshal(config); text == nil {
		t.Fatal("no configuration")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tool(t, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr,
		"--scrape.discovery-reload-interval=100ms")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("Prometheus: %v\n%s", err, text)
		}
	})
	p := &prometheus{url: "http://" + addr, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}}
	waitFor(t, "Prometheus is ready", func() bool {
		resp, err := p.client.Get(p.url + "/-/ready")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	return p
}

// ask calls Prometheus's API and reads the data of its answer.
func (p *prometheus) ask(t *testing.T, path string, data any, query ...string) {
	t.Helper()
	values := url.Values{}
	if len(query) > 0 {
		values.Set("query", query[0])
	}
	resp, err := p.client.Get(p.url + path + "?" + values.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := struct{ Data any }{data}
	if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %q: %s: %v\n%s", path, query, resp.Status, err, text)
	}
}

// values are those of a query now that are numbers.
func (p *prometheus) values(t *testing.T, query string) (values []float64) {
	t.Helper()
	var answer struct {
		Result []struct{ Value [2]any }
	}
	p.ask(t, "/api/v1/query", &answer, query)
	for _, r := range answer.Result {
		text, _ := r.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return values
}

// selectors are the names with their matchers that a query reads, as Prometheus understands it.
func (p *prometheus) selectors(t *testing.T, query string) (found []string) {
	t.Helper()
	var tree any
	p.ask(t, "/api/v1/parse_query", &tree, query)
	var walk func(any)
	walk = func(node any) {
		switch node := node.(type) {
		case []any:
			for _, child := range node {
				walk(child)
			}
		case map[string]any:
			if kind, _ := node["type"].(string); kind == "vectorSelector" || kind == "matrixSelector" {
				found = append(found, selector(node))
			}
			for _, child := range node {
				walk(child)
			}
		}
	}
	walk(tree)
	return found
}

func selector(node map[string]any) string {
	var matchers []string
	for _, m := range node["matchers"].([]any) {
		m := m.(map[string]any)
		matchers = append(matchers, fmt.Sprintf("%s%s%q", m["name"], m["type"], m["value"]))
	}
	slices.Sort(matchers)
	return "{" + strings.Join(matchers, ",") + "}"
}

// startSpare starts a Verdict without an Envoy that has a TLS listener, an upstream with a credential, one
// whose credential cannot be had, and a configuration file that has been broken since.
func startSpare(t *testing.T, admin string) {
	t.Helper()
	dir := t.TempDir()
	authority := pki.NewAuthority(t, "monitoring")
	cert, key := authority.Server(t).Write(t, dir, "server")
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "verdict.yaml")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token, "a-token")
	write(file, fmt.Sprintf(`
listeners: {api: {tls: {cert_file: %s, key_file: %s}}}
upstreams:
- {clusters: [token], credential: {token_file: {path: %s}}}
- {clusters: [no-token], credential: {token_file: {path: %s}}}
`, cert, key, token, token+"-that-is-not-there"))
	var log bytes.Buffer
	cmd := exec.Command(extproc, "serve", "--drain-time=0s", "--config="+file, "--data-plane=127.0.0.1:0", "--api=127.0.0.1:0", "--admin="+admin)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("extproc serve: %v\n%s", err, &log)
		}
	})
	waitFor(t, "the spare one serves", func() bool {
		_, err := output(extproc, "budget", "list", "--server="+admin)
		return err == nil
	})
	write(file, "defaults: {max_attempts: many}\n")
}
