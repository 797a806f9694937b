package stack

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hop(t *testing.T) *Config {
	t.Helper()
	c, err := loadHop(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get(t *testing.T, c *Config, path string) any {
	t.Helper()
	v, err := c.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEdits(t *testing.T) {
	c := hop(t)
	retries := Route("outer", "all", "0") + "/route/retry_policy/num_retries"
	err := c.apply([]Patch{
		NewPatch("set", Set(retries, "7"), Set(Cluster("app")+"/connect_timeout", "5s")),
		NewPatch("add a field", Set(Cluster("app")+"/respect_dns_ttl", "true")),
		NewPatch("insert", Insert(HTTPFilter("attempts", "judge"), "{name: before-judge}")),
		NewPatch("append", Append(HCM("attempts")+"/route_config/virtual_hosts", "{name: last}")),
		NewPatch("remove a field", Remove(DelegatedConfig("attempts", "judge")+"/allow_mode_override")),
		NewPatch("remove an element", Remove(HTTPFilter("outer", "sweep"))),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, c, retries); got != 7 {
		t.Errorf("num_retries %v", got)
	}
	if got := get(t, c, Cluster("app")+"/connect_timeout"); got != "5s" {
		t.Errorf("connect_timeout %v", got)
	}
	filters := get(t, c, HCM("attempts")+"/http_filters").([]any)
	if i, err := indexOf(filters, "before-judge"); err != nil || filters[i+1].(map[string]any)["name"] != "judge" {
		t.Errorf("before-judge stands at %d: %v", i, err)
	}
	hosts := get(t, c, HCM("attempts")+"/route_config/virtual_hosts").([]any)
	if last := hosts[len(hosts)-1].(map[string]any)["name"]; last != "last" {
		t.Errorf("the last virtual host is %v", last)
	}
	for _, gone := range []string{DelegatedConfig("attempts", "judge") + "/allow_mode_override", HTTPFilter("outer", "sweep")} {
		if v, err := c.Get(gone); err == nil {
			t.Errorf("%s is still there: %v", gone, v)
		}
	}
}

// The file says &unlimited once and *unlimited twice: an edit of one place leaves the others alone.
func TestAliasesAreCopies(t *testing.T) {
	c := hop(t)
	const limit = "/circuit_breakers/thresholds/0/max_retries"
	if err := c.apply([]Patch{NewPatch("three retries", Set(Cluster("attempts")+limit, "3"))}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, c, Cluster("attempts")+limit); got != 3 {
		t.Errorf("attempts: %v", got)
	}
	if got := get(t, c, Cluster("verdict")+limit); got != 100000 {
		t.Errorf("verdict: %v", got)
	}
}

func TestPatchErrors(t *testing.T) {
	for name, test := range map[string]struct {
		edit Edit
		want string
	}{
		"no such cluster":     {Set(Cluster("nope")+"/connect_timeout", "5s"), `static_resources/clusters/nope: not found among ["attempts"`},
		"no such parent":      {Set(Cluster("app")+"/nope/deeper", "5s"), "static_resources/clusters/app/nope: not found"},
		"below a value":       {Set(Cluster("app")+"/name/deeper", "5s"), "not found: a string has no parts"},
		"no such element":     {Set("static_resources/clusters/99", "{}"), "static_resources/clusters/99: not found among"},
		"nothing to remove":   {Remove(Cluster("app") + "/nope"), "static_resources/clusters/app/nope: not found"},
		"no such filter":      {Insert(HTTPFilter("attempts", "nope"), "{}"), "http_filters/nope: not found among"},
		"not a list":          {Append(Cluster("app"), "{}"), "is no list"},
		"insert into a field": {Insert(Cluster("app")+"/name", "{}"), "its parent is no list"},
		"not YAML":            {Set(Cluster("app")+"/name", "{"), `value "{"`},
		"nothing changed":     {Set(Cluster("app")+"/name", "app"), `patch "p" changes nothing`},
	} {
		err := hop(t).apply([]Patch{NewPatch("p", test.edit)})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `"p"`) {
			t.Errorf("%s: error %v, want it to contain %q", name, err, test.want)
		}
	}
}
