package app

import (
	"fmt"
	"net"
	"slices"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/listeners"
)

// guardCredentials refuses a configuration by which other machines could be given an upstream's credential
// without saying who they are: whoever reaches the data plane gets what Envoy gets.
func guardCredentials(dataPlane net.Listener, cfg *config.Config) error {
	if !listeners.Remote(dataPlane) || cfg.Listeners().GetDataPlane().GetTls().GetClientCaFile() != "" {
		return nil
	}
	clusters := cfg.Clusters()
	i := slices.IndexFunc(clusters, func(cluster string) bool { return cfg.Upstream(cluster).Credential() != nil })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("the credential of cluster %q would be given to whoever reaches the data plane at %s: it must be on loopback or a Unix socket, or ask for a client certificate (listeners.data_plane.tls.client_ca_file)",
		clusters[i], dataPlane.Addr())
}
