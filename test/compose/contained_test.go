package compose

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// testImage: the service's image is small, has no shell, and holds a static binary.
func (p *project) testImage(t *testing.T) {
	const limit = 20_000_000
	save := exec.Command("docker", "save", "verdict:compose")
	image, err := save.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := save.Start(); err != nil {
		t.Fatal(err)
	}
	var size counter
	zip := gzip.NewWriter(&size)
	if _, err := io.Copy(zip, image); err != nil {
		t.Fatal(err)
	}
	if err := save.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("docker save | gzip: %.1f MB", float64(size)/1e6)
	if size >= limit || size < 1_000_000 {
		t.Errorf("the image has %d bytes compressed, at most %d are allowed", size, limit)
	}
	id := p.container(t, "verdict-1")
	if out, err := command(20*time.Second, "docker", "exec", id, "sh", "-c", "true"); err == nil {
		t.Errorf("there is a shell: %s", out)
	}
	if out := docker(t, "exec", id, "/extproc", "health"); out != "SERVING" {
		t.Errorf("health: %q", out)
	}
	// A binary that needs a dynamic loader would not have started: the image has none.
	if out, err := command(20*time.Second, "docker", "exec", id, "/lib64/ld-linux-x86-64.so.2", "--version"); err == nil {
		t.Errorf("there is a loader: %s", out)
	}
}

type counter int

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

// writable says why a service may write to its own container.
var writable = map[string]string{"valkey": "its data outlives a restart and ends with the container"}

// testContained: nobody runs as root, nobody can become it, nothing is writable or reachable that need not.
func (p *project) testContained(t *testing.T) {
	var containers []struct {
		Name, Image string
		Config      struct {
			User, Image string
			Labels      map[string]string
		}
		HostConfig struct {
			ReadonlyRootfs, Privileged bool
			CapAdd, CapDrop            []string
			SecurityOpt                []string
			PortBindings               map[string][]struct{ HostIp string }
		}
		Mounts []struct {
			Type, Destination string
			RW                bool
		}
	}
	ids := strings.Fields(p.compose(t, time.Minute, "ps", "--all", "--quiet"))
	if err := json.Unmarshal([]byte(docker(t, append([]string{"inspect"}, ids...)...)), &containers); err != nil {
		t.Fatal(err)
	}
	if len(containers) != 8 {
		t.Errorf("%d containers", len(containers))
	}
	for _, c := range containers {
		service := c.Config.Labels["com.docker.compose.service"]
		h := c.HostConfig
		if h.ReadonlyRootfs == (writable[service] != "") {
			t.Errorf("%s: read-only: %v (%s)", service, h.ReadonlyRootfs, writable[service])
		}
		if h.Privileged || len(h.CapAdd) > 0 || strings.Join(h.CapDrop, ",") != "ALL" || strings.Join(h.SecurityOpt, ",") != "no-new-privileges:true" {
			t.Errorf("%s: %+v", service, h)
		}
		for port, bindings := range h.PortBindings {
			for _, b := range bindings {
				if b.HostIp != "127.0.0.1" {
					t.Errorf("%s: %s is published on %q", service, port, b.HostIp)
				}
			}
		}
		for _, m := range c.Mounts {
			if m.Type == "volume" || m.RW && m.Destination != "/events" {
				t.Errorf("%s: mount %+v", service, m)
			}
		}
		_, tag, _ := strings.Cut(c.Config.Image, ":")
		if !strings.ContainsAny(tag, "0123456789") && tag != "compose" {
			t.Errorf("%s: image %s is not pinned", service, c.Config.Image)
		}
		processes := strings.Split(docker(t, "top", c.Name, "-eo", "pid,uid,comm"), "\n")
		for _, process := range processes[1:] {
			if uid := strings.Fields(process)[1]; uid == "0" {
				t.Errorf("%s: root runs %q", service, process)
			}
		}
	}
}

// testDown: `docker compose down` leaves no container, no network and no volume.
func (p *project) testDown(t *testing.T) {
	label := "label=com.docker.compose.project=" + name
	kinds := [][]string{
		{"ps", "--all", "--quiet", "--filter", label}, {"network", "ls", "--quiet", "--filter", label}, {"volume", "ls", "--quiet", "--filter", label},
	}
	for _, args := range kinds[:2] {
		if docker(t, args...) == "" {
			t.Errorf("docker %q does not even see what is there", args)
		}
	}
	p.showLogs()
	p.compose(t, 2*time.Minute, "down")
	for _, args := range kinds {
		if left := docker(t, args...); left != "" {
			t.Errorf("docker %q: %s", args, left)
		}
	}
}
