package app

import (
	"fmt"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/envoycheck"
)

// credentials compares where the configuration says that attempts get their credential with where Envoy
// has them get it, route by route. It reports whether attempts would go without, or not at all.
func (c CheckCmd) credentials(s streams, cfg *config.Config, report envoycheck.Report) (wrong bool) {
	for _, use := range report.Credentialed {
		u := cfg.Upstream(use.Cluster)
		find := func(severity, text string) {
			fmt.Fprintf(s.err, "%s:%d:%d: %s: cluster %q %s\n", c.Envoy, use.Line, use.Column, severity, use.Cluster, text)
			wrong = wrong || severity == "error"
		}
		switch {
		case u.Credential() == nil && use.Later:
			find("error", "has no credential in the configuration: every attempt that the credential filter sees on this route would be refused")
		case u.Credential() == nil:
		case !use.Later:
			find("error", "has a credential in the configuration, and the credential filter is not on for this route: see envoy/credential.yaml")
		case u.FirstAttempts() && !use.First:
			find("error", "has first_attempts in the configuration, and the credential filter does not see the first attempts on this route: an empty xds_matcher")
		case use.First && !u.FirstAttempts():
			find("error", "lacks first_attempts in the configuration, and the credential filter sees the first attempts on this route too: they would go without")
		case !use.First && !use.Injected:
			find("warning", "gets no credential with the first attempts on this route: first_attempts, or Envoy's credential injector")
		case use.Injected && !use.First && u.Credential().GetTokenFile() == nil:
			find("warning", "gets its first credential on this route from Envoy, which knows nothing of Verdict's source: its 401 is denied(credential_not_ours)")
		}
	}
	return wrong
}
