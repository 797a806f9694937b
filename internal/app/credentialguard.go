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
//
// asks is whether the listener that is open asks for client certificates: a reload cannot change that.
func guardCredentials(dataPlane net.Listener, asks bool, cfg *config.Config) error {
	if !listeners.Remote(dataPlane) || asks {
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
