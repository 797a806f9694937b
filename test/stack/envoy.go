package stack

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/verdictproxy/verdict/test/upstream"
)

// HopFile returns the path of envoy/hop.yaml.
func HopFile() (string, error) {
	root, err := Root()
	return filepath.Join(root, "envoy", "hop.yaml"), err
}

// loadHop reads envoy/hop.yaml.
func loadHop(up *upstream.Server) (*Config, error) {
	file, err := HopFile()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c.Upstream = up
	return c, nil
}

func (s *Stack) startEnvoy() error {
	binary, err := FindEnvoy(s.options.Envoy)
	if err != nil {
		return err
	}
	if err := s.writeConfig(binary); err != nil {
		return err
	}
	// Without hot restart there is no base id that two Envoys could share.
	args := []string{binary, "-c", s.ConfigFile, "--disable-hot-restart", "--log-level", "warning", "--concurrency", "1"}
	if strings.Contains(strings.Join(s.options.EnvoyArgs, " "), "--concurrency") {
		args = args[:len(args)-2]
	}
	s.envoy, err = startProcess("envoy", filepath.Join(s.dir, "envoy.log"), append(args, s.options.EnvoyArgs...)...)
	if err != nil {
		return err
	}
	running := 0
	for _, r := range s.replicas {
		if r.process != nil {
			running++
		}
	}
	return poll(readyLimit, s.envoy, func() error {
		if _, err := s.get(s.AdminURL() + "/ready"); err != nil {
			return fmt.Errorf("envoy: %w", err)
		}
		conn, err := net.Dial("tcp", s.Addr)
		if err != nil {
			return fmt.Errorf("envoy: outer listener: %w", err)
		}
		_ = conn.Close()
		return s.checkHealthy(running)
	})
}

// writeConfig makes Envoy's configuration out of envoy/hop.yaml.
func (s *Stack) writeConfig(binary string) error {
	c, err := loadHop(s.Upstream)
	if err != nil {
		return err
	}
	if s.Addr, err = s.freeAddr(); err != nil {
		return err
	}
	if s.AdminAddr, err = s.freeAddr(); err != nil {
		return err
	}
	patches := []Patch{s.addresses()}
	if is136, err := isEnvoy136(binary, s.options.Envoy); err != nil {
		return err
	} else if is136 {
		patches = append(patches, envoy136)
	}
	if err := c.apply(append(patches, s.options.Patches...)); err != nil {
		return err
	}
	text, err := c.YAML()
	if err != nil {
		return err
	}
	s.ConfigFile = filepath.Join(s.dir, "envoy.yaml")
	return os.WriteFile(s.ConfigFile, text, 0o644)
}

// addresses is the only patch that every Stack needs.
func (s *Stack) addresses() Patch {
	var verdict []string
	for _, r := range s.replicas {
		verdict = append(verdict, r.data)
	}
	up := s.Upstream.Addrs()
	return NewPatch("ports and addresses",
		Set("admin/address", address(s.AdminAddr)),
		Set(Listener("outer")+"/address", address(s.Addr)),
		endpoints("verdict", verdict...),
		endpoints("app", up.H1), endpoints("app-h2", up.H2), endpoints("app-tls", up.TLS))
}

// envoy136 is what the head of envoy/hop.yaml says about Envoy 1.36.
var envoy136 = NewPatch("runtime guard of Envoy 1.36", Set("layered_runtime",
	`{layers: [{name: static, static_layer: {envoy.reloadable_features.skip_ext_proc_on_local_reply: false}}]}`))

func isEnvoy136(binary, version string) (bool, error) {
	if binary != os.Getenv("ENVOY") {
		return strings.HasPrefix(version, "1.36."), nil
	}
	out, err := exec.Command(binary, "--version").Output() // $ENVOY may be any
	if err != nil {
		return false, fmt.Errorf("%s --version: %w", binary, err)
	}
	return strings.Contains(string(out), "/1.36."), nil
}

// endpoints replaces a cluster's endpoints.
func endpoints(cluster string, addrs ...string) Edit {
	return Set(Cluster(cluster)+"/load_assignment", loadAssignment(cluster, addrs...))
}

func loadAssignment(cluster string, addrs ...string) string {
	var list []string
	for _, addr := range addrs {
		list = append(list, "{endpoint: {address: "+address(addr)+"}}")
	}
	return fmt.Sprintf("{cluster_name: %s, endpoints: [{lb_endpoints: [%s]}]}", cluster, strings.Join(list, ", "))
}

func address(addr string) string {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return fmt.Sprintf("{pipe: {path: %q}}", path)
	}
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("{socket_address: {address: %q, port_value: %s}}", host, port)
}

// EnvoyLog is what Envoy has logged, warnings and above.
func (s *Stack) EnvoyLog() string { s.t.Helper(); return s.read(s.envoy.log) }

// EnvoyPID is Envoy's process id.
func (s *Stack) EnvoyPID() int { return s.envoy.cmd.Process.Pid }

// WaitHealthy waits until Envoy's health checks find n replicas of Verdict serving.
func (s *Stack) WaitHealthy(n int) {
	s.t.Helper()
	if err := poll(readyLimit, s.envoy, func() error { return s.checkHealthy(n) }); err != nil {
		s.t.Fatalf("stack: %v", err)
	}
}

func (s *Stack) checkHealthy(n int) error {
	got, err := s.stat("cluster.verdict.membership_healthy")
	if err == nil && got != n {
		err = fmt.Errorf("envoy finds %d of %d replicas healthy", got, n)
	}
	return err
}

// EnvoyStat reads a counter or a gauge by its full name, such as cluster.app.upstream_rq_total.
func (s *Stack) EnvoyStat(name string) int {
	s.t.Helper()
	n, err := s.stat(name)
	if err != nil {
		s.t.Fatalf("stack: %v", err)
	}
	return n
}

// ClusterStat reads cluster.CLUSTER.NAME.
func (s *Stack) ClusterStat(cluster, name string) int {
	s.t.Helper()
	return s.EnvoyStat("cluster." + cluster + "." + name)
}

// ExtProcStat reads a counter of the ext_proc filters of a listener, outer (the finalizer) or attempts
// (the judge): http.LISTENER.ext_proc.NAME.
func (s *Stack) ExtProcStat(listener, name string) int {
	s.t.Helper()
	return s.EnvoyStat("http." + listener + ".ext_proc." + name)
}

// EnvoyStats reads all counters and gauges whose names begin so.
func (s *Stack) EnvoyStats(prefix string) map[string]int {
	s.t.Helper()
	stats, err := s.stats(prefix)
	if err != nil {
		s.t.Fatalf("stack: %v", err)
	}
	return stats
}

// WaitStat waits until a counter or gauge has reached n.
func (s *Stack) WaitStat(name string, n int) {
	s.t.Helper()
	err := poll(readyLimit, s.envoy, func() error {
		got, err := s.stat(name)
		if err == nil && got < n {
			err = fmt.Errorf("envoy: %s is %d, not %d", name, got, n)
		}
		return err
	})
	if err != nil {
		s.t.Fatalf("stack: %v", err)
	}
}

func (s *Stack) stat(name string) (int, error) {
	stats, err := s.stats(name)
	if err != nil {
		return 0, err
	}
	n, ok := stats[name]
	if !ok {
		return 0, errors.New("envoy has no statistic " + name)
	}
	return n, nil
}

func (s *Stack) stats(prefix string) (map[string]int, error) {
	text, err := s.get(s.AdminURL() + "/stats?filter=" + url.QueryEscape("^"+regexp.QuoteMeta(prefix)))
	if err != nil {
		return nil, fmt.Errorf("envoy: %w", err)
	}
	stats := map[string]int{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.Atoi(value); err == nil {
			stats[name] = n
		}
	}
	return stats, nil
}
