package stack

import "github.com/verdictproxy/verdict/test/upstream"

// Render returns envoy/hop.yaml with the patches and its own ports and addresses: a file to be checked
// and not to be run. Patches that need the upstream's addresses or certificates find it in
// Config.Upstream.
func Render(up *upstream.Server, patches ...Patch) ([]byte, error) {
	c, err := loadHop(up)
	if err != nil {
		return nil, err
	}
	if err := c.apply(patches); err != nil {
		return nil, err
	}
	return c.YAML()
}
