package stack

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Patch is a change of envoy/hop.yaml with a name that says what for.
type Patch struct {
	Name  string
	Apply func(*Config) error
}

// Edit changes one place of a configuration. Its error names the place that it did not find.
type Edit func(*Config) error

// NewPatch is the Patch that makes the edits one after the other.
func NewPatch(name string, edits ...Edit) Patch {
	return Patch{name, func(c *Config) error {
		for _, edit := range edits {
			if err := edit(c); err != nil {
				return err
			}
		}
		return nil
	}}
}

// A path is a list of steps joined by "/": a key of a map, or an element of a list by its name or,
// where it has none, by its index. These functions return the paths of what has a name.

// Listener is the path of a listener: outer or attempts.
func Listener(name string) string { return "static_resources/listeners/" + name }

// HCM is the path of the configuration of a listener's HTTP connection manager.
func HCM(listener string) string {
	return Listener(listener) + "/filter_chains/0/filters/0/typed_config"
}

// HTTPFilter is the path of a filter in a listener's chain.
func HTTPFilter(listener, name string) string { return HCM(listener) + "/http_filters/" + name }

// FilterConfig is the path of the configuration of a filter that stands there by itself, as head does.
func FilterConfig(listener, name string) string { return HTTPFilter(listener, name) + "/typed_config" }

// DelegatedConfig is the path of the configuration of a filter under a matcher, as judge is.
func DelegatedConfig(listener, name string) string {
	return FilterConfig(listener, name) + "/extension_config/typed_config"
}

// VirtualHost is the path of a virtual host: all of the outer listener, app and others of attempts.
func VirtualHost(listener, name string) string {
	return HCM(listener) + "/route_config/virtual_hosts/" + name
}

// Route is the path of a route, by its name or index: the only one of the outer listener is 0.
func Route(listener, virtualHost, name string) string {
	return VirtualHost(listener, virtualHost) + "/routes/" + name
}

// Cluster is the path of a cluster.
func Cluster(name string) string { return "static_resources/clusters/" + name }

// HTTPOptions is the path of a cluster's HttpProtocolOptions.
func HTTPOptions(cluster string) string {
	return Cluster(cluster) + "/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
}

// Set replaces what stands at a path, or adds it there: all but the last step must exist.
func Set(path, value string) Edit {
	return withValue(value, func(c *Config, v any) error { return c.put(path, v) })
}

// Append adds an element at the end of the list at a path.
func Append(path, element string) Edit {
	return withValue(element, func(c *Config, v any) error { return c.splice(path, -1, v) })
}

// Insert adds an element in front of the list element at a path.
func Insert(path, element string) Edit {
	return withValue(element, func(c *Config, v any) error {
		parent, last, err := c.parent(path)
		if err != nil {
			return err
		}
		list, ok := parent.([]any)
		if !ok {
			return fmt.Errorf("%s: its parent is no list", path)
		}
		i, err := indexOf(list, last)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return c.splice(path[:strings.LastIndex(path, "/")], i, v)
	})
}

// Remove removes what stands at a path.
func Remove(path string) Edit { return func(c *Config) error { return c.remove(path) } }

// withValue reads a value that is written as YAML.
func withValue(text string, edit func(*Config, any) error) Edit {
	return func(c *Config) error {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return fmt.Errorf("value %q: %w", text, err)
		}
		return edit(c, value)
	}
}
