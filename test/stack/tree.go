package stack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/verdictproxy/verdict/test/upstream"
)

// Config is an Envoy configuration that patches change: the parsed file, each alias replaced by a
// copy of its own, so that an edit changes one place.
type Config struct {
	// Upstream runs already, for edits that need its addresses or certificates.
	Upstream *upstream.Server

	root map[string]any
}

// parseConfig reads an Envoy configuration.
func parseConfig(text []byte) (*Config, error) {
	c := &Config{}
	if err := yaml.Unmarshal(text, &c.root); err != nil {
		return nil, err
	}
	return c, nil
}

// YAML is the configuration as Envoy reads it.
func (c *Config) YAML() ([]byte, error) { return yaml.Marshal(c.root) }

// apply applies the patches in their order. A patch that changes nothing is an error.
func (c *Config) apply(patches []Patch) error {
	before, err := json.Marshal(c.root)
	for _, p := range patches {
		if err != nil {
			return err
		}
		if err = p.Apply(c); err != nil {
			return fmt.Errorf("envoy/hop.yaml: patch %q: %w", p.Name, err)
		}
		var after []byte
		after, err = json.Marshal(c.root)
		if bytes.Equal(before, after) {
			return fmt.Errorf("envoy/hop.yaml: patch %q changes nothing", p.Name)
		}
		before = after
	}
	return err
}

// Get returns what stands at a path: a map[string]any, a []any, a string, an int, a float64 or a bool.
func (c *Config) Get(path string) (any, error) {
	var at any = c.root
	walked := ""
	for step := range strings.SplitSeq(path, "/") {
		child, err := childOf(at, step)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimPrefix(walked+"/"+step, "/"), err)
		}
		at, walked = child, walked+"/"+step
	}
	return at, nil
}

// childOf is a map's value, or a list's element by its name or its index.
func childOf(at any, step string) (any, error) {
	switch at := at.(type) {
	case map[string]any:
		if child, ok := at[step]; ok {
			return child, nil
		}
		return nil, errors.New("not found")
	case []any:
		i, err := indexOf(at, step)
		if err != nil {
			return nil, err
		}
		return at[i], nil
	}
	return nil, fmt.Errorf("not found: a %T has no parts", at)
}

func indexOf(list []any, step string) (int, error) {
	var names []string
	for i, element := range list {
		fields, _ := element.(map[string]any)
		name, _ := fields["name"].(string)
		if name == step {
			return i, nil
		}
		names = append(names, name)
	}
	if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(list) {
		return i, nil
	}
	return 0, fmt.Errorf("not found among %q", names)
}

// put replaces what stands at a path, or adds it to a map.
func (c *Config) put(path string, value any) error {
	parent, last, err := c.parent(path)
	if err != nil {
		return err
	}
	switch parent := parent.(type) {
	case map[string]any:
		parent[last] = value
		return nil
	case []any:
		i, err := indexOf(parent, last)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		parent[i] = value
		return nil
	}
	return fmt.Errorf("%s: not found: a %T has no parts", path, parent)
}

// splice puts elements in front of the i-th of the list at path; i < 0: at its end.
func (c *Config) splice(path string, i int, elements ...any) error {
	at, err := c.Get(path)
	if err != nil {
		return err
	}
	list, ok := at.([]any)
	if !ok {
		return fmt.Errorf("%s: is no list", path)
	}
	if i < 0 {
		i = len(list)
	}
	return c.put(path, slices.Insert(slices.Clone(list), i, elements...))
}

func (c *Config) remove(path string) error {
	if _, err := c.Get(path); err != nil {
		return err
	}
	parent, last, err := c.parent(path)
	if err != nil {
		return err
	}
	if fields, ok := parent.(map[string]any); ok {
		delete(fields, last)
		return nil
	}
	list := parent.([]any)
	i, err := indexOf(list, last)
	if err != nil {
		return err
	}
	return c.put(path[:strings.LastIndex(path, "/")], slices.Delete(slices.Clone(list), i, i+1))
}

// parent splits a path into what its last step is looked for in, and that step.
func (c *Config) parent(path string) (any, string, error) {
	i := strings.LastIndex(path, "/")
	if i < 0 {
		return c.root, path, nil
	}
	parent, err := c.Get(path[:i])
	return parent, path[i+1:], err
}
