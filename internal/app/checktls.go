package app

import (
	"fmt"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/envoycheck"
)

// encryption warns where Envoy and the data plane would not understand each other. It is no error: something
// between the two may speak TLS to one of them.
func (c CheckCmd) encryption(s streams, cfg *config.Config, report envoycheck.Report) {
	if c.File == "" {
		return
	}
	settings := cfg.Listeners().GetDataPlane().GetTls()
	for _, caller := range report.Callers {
		text := ""
		switch {
		case caller.TLS && settings == nil:
			text = "speaks TLS to Verdict, and listeners.data_plane has no tls"
		case !caller.TLS && settings != nil:
			text = "speaks plaintext to Verdict, and listeners.data_plane has tls: see envoy/tls/cluster.yaml"
		case !caller.Certificate && settings.GetClientCaFile() != "":
			text = "shows Verdict no certificate, and listeners.data_plane asks for one"
		default:
			continue
		}
		fmt.Fprintf(s.err, "%s:%d:%d: warning: cluster %q %s: nothing would be judged\n", c.Envoy, caller.Line, caller.Column, caller.Cluster, text)
	}
}
