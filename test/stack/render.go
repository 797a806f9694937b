package stack

import (
	"fmt"
	"os"

	"github.com/verdictproxy/verdict/test/upstream"
)

// Render returns envoy/hop.yaml with the patches and its own ports and addresses: a file to be checked
// and not to be run. Patches that need the upstream's addresses or certificates find it in
// Config.Upstream.
func Render(up *upstream.Server, patches ...Patch) ([]byte, error) {
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
	if err := c.apply(patches); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c.YAML()
}
