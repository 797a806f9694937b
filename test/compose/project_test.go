package compose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

const name = "verdict-compose-test"

// project is a run of docker-compose.yml under a name of its own, on free ports.
type project struct {
	events string // the folder of the event logs
	client http.Client
	test   *testing.T
	shown  bool
	killed []time.Time // when replicas were
}

// start brings everything up, and ends it when the test is over.
func start(t *testing.T) *project {
	t.Helper()
	p := &project{test: t, client: http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	var err error
	if p.events, err = os.MkdirTemp("", "verdict-events-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p.events) })
	if err := os.Chmod(p.events, 0o777); err != nil { // for the containers' user
		t.Fatal(err)
	}
	t.Setenv("EVENTS_DIR", p.events)
	for _, port := range []string{"ENVOY", "ENVOY_ADMIN", "VERDICT_1", "VERDICT_2", "UPSTREAM", "LOAD", "PROMETHEUS", "GRAFANA"} {
		t.Setenv(port+"_PORT", "") // any
	}
	begin := time.Now()
	if err := prepare(t.Logf); err != nil {
		t.Fatalf("the compose run needs a container engine and images: %v", err)
	}
	t.Logf("engine and images: %.0f s", time.Since(begin).Seconds())
	p.compose(t, time.Minute, "down", "--volumes", "--remove-orphans") // of a run that was killed
	t.Cleanup(func() { p.end(t) })
	begin = time.Now()
	if out, err := p.try(5*time.Minute, "build"); err != nil {
		t.Logf("docker compose build, the first time: %v\n%s", err, tail(out)) // modules come from elsewhere
		p.compose(t, 5*time.Minute, "build")
	}
	t.Logf("build: %.0f s", time.Since(begin).Seconds())
	begin = time.Now()
	p.compose(t, 3*time.Minute, "up", "--detach", "--wait")
	t.Logf("up: %.0f s", time.Since(begin).Seconds())
	return p
}

// showLogs shows what every service has logged last, if the test has failed.
func (p *project) showLogs() {
	if !p.test.Failed() || p.shown {
		return
	}
	p.shown = true
	for _, args := range [][]string{{"ps", "--all"}, {"logs", "--no-color", "--timestamps", "--tail", "100"}} {
		out, _ := p.try(time.Minute, args...)
		p.test.Logf("docker compose %s\n%s", args[0], out)
	}
}

// end takes down what is still there.
func (p *project) end(t *testing.T) {
	p.showLogs()
	if out, err := p.try(2*time.Minute, "down", "--volumes", "--remove-orphans"); err != nil {
		t.Errorf("docker compose down: %v\n%s", err, out)
	}
}

func (p *project) try(limit time.Duration, args ...string) ([]byte, error) {
	return command(limit, "docker", append([]string{"compose", "-p", name, "-f", "docker-compose.yml", "-f", "test/compose/override.yml"}, args...)...)
}

func (p *project) compose(t *testing.T, limit time.Duration, args ...string) string {
	t.Helper()
	out, err := p.try(limit, args...)
	if err != nil {
		t.Fatalf("docker compose %q: %v\n%s", args, err, tail(out))
	}
	return string(out)
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(time.Minute, "docker", args...)
	if err != nil {
		t.Fatalf("docker %q: %v\n%s", args, err, tail(out))
	}
	return strings.TrimSpace(string(out))
}

// container is the id of a service's container, which may be stopped.
func (p *project) container(t *testing.T, service string) string {
	t.Helper()
	id := strings.TrimSpace(p.compose(t, time.Minute, "ps", "--all", "--quiet", service))
	if id == "" || strings.Contains(id, "\n") {
		t.Fatalf("service %s: container %q", service, id)
	}
	return id
}

// addr is where a service's port is published. It changes when the container is started anew.
func (p *project) addr(t *testing.T, service string, port int) string {
	t.Helper()
	return strings.TrimSpace(p.compose(t, time.Minute, "port", service, fmt.Sprint(port)))
}

func (p *project) kill(t *testing.T, service string) {
	t.Helper()
	id := p.container(t, service)
	if strings.HasPrefix(service, "verdict-") {
		p.killed = append(p.killed, time.Now())
	}
	docker(t, "kill", "--signal", "KILL", id)
}

// revive starts a killed service and waits until it is healthy.
func (p *project) revive(t *testing.T, service string) {
	t.Helper()
	docker(t, "start", p.container(t, service))
	p.healthy(t, service)
}

func (p *project) healthy(t *testing.T, service string) {
	t.Helper()
	id := p.container(t, service)
	within(t, time.Minute, service+" is healthy", func() string {
		if state := docker(t, "inspect", "--format", "{{.State.Health.Status}}", id); state != "healthy" {
			return state
		}
		return ""
	})
}

func (p *project) get(url string) (string, error) {
	answer, err := p.client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, answer.Status, tail(body))
	}
	return string(body), err
}

func (p *project) getJSON(t *testing.T, url string, into any) {
	t.Helper()
	text, err := p.get(url)
	if err == nil {
		err = json.NewDecoder(bytes.NewBufferString(text)).Decode(into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// within asks until nothing stands in the way any more, at most for limit.
func within(t *testing.T, limit time.Duration, what string, obstacle func() string) {
	t.Helper()
	begin := time.Now()
	for {
		o := obstacle()
		if o == "" {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("%s: after %v: %s", what, limit, o)
		}
		time.Sleep(250 * time.Millisecond)
	}
}
