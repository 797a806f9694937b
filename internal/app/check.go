package app

import (
	"fmt"
	"slices"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/envoycheck"
)

// CheckCmd says what a configuration means, or everything that is wrong with it.
type CheckCmd struct {
	File  string `arg:"" optional:"" type:"path" help:"The configuration file; without it, the defaults are shown."`
	Envoy string `type:"path" placeholder:"FILE" help:"Check this Envoy bootstrap too: what falsifies the facts or breaks the two hops."`
}

// Run writes what was understood to the output, defaults included, as a file that means the same, and
// every problem, one a line, to the error output. Warnings are no failure.
func (c CheckCmd) Run(s streams) error {
	cfg, err := config.Load(c.File)
	failed := err != nil
	if failed {
		fmt.Fprintln(s.err, err)
	} else {
		for _, warning := range cfg.Warnings() {
			fmt.Fprintln(s.err, warning)
		}
	}
	if c.Envoy != "" {
		report, err := envoycheck.Load(c.Envoy)
		if err != nil {
			fmt.Fprintln(s.err, err)
			return errReported
		}
		for _, finding := range report.Findings {
			fmt.Fprintln(s.err, finding)
			failed = failed || finding.Severity == envoycheck.Error
		}
		if cfg != nil {
			c.compare(s, cfg, report)
			failed = c.drawnAlike(s, cfg, report) || failed
			failed = c.livesLonger(s, cfg, report) || failed
			failed = c.credentials(s, cfg, report) || failed
			failed = c.unjudged(s, cfg, report) || failed
			c.encryption(s, cfg, report)
		}
	}
	if failed {
		return errReported
	}
	out, err := cfg.YAML()
	if err != nil {
		return err
	}
	_, err = s.out.Write(out)
	return err
}

// drawnAlike reports whether attempts of one request may go to clusters for which different things are
// declared: a second attempt of an operation that the first upstream honours a key for must not go to
// one that does not.
func (c CheckCmd) drawnAlike(s streams, cfg *config.Config, report envoycheck.Report) (differ bool) {
	for _, split := range report.Splits {
		for _, cluster := range split.Clusters {
			if first := split.Clusters[0]; cfg.Upstream(cluster) != cfg.Upstream(first) {
				fmt.Fprintf(s.err, "%s:%d:%d: error: weighted_clusters: %q and %q are not declared in the same entry of the configuration, and an attempt of one request may go to either\n",
					c.Envoy, split.Line, split.Column, first, cluster)
				differ = true
			}
		}
	}
	return differ
}

// livesLonger reports whether a request may take longer than the configuration says that any does.
func (c CheckCmd) livesLonger(s streams, cfg *config.Config, report envoycheck.Report) (longer bool) {
	for _, deadline := range report.Deadlines {
		if deadline.Timeout > cfg.LongestRequest() {
			fmt.Fprintf(s.err, "%s:%d:%d: error: timeout: %v is longer than longest_request (%v) of the configuration\n",
				c.Envoy, deadline.Line, deadline.Column, deadline.Timeout, cfg.LongestRequest())
			longer = true
		}
	}
	return longer
}

// compare warns of names in the configuration that Envoy does not have: a misspelt one declares
// nothing.
func (c CheckCmd) compare(s streams, cfg *config.Config, report envoycheck.Report) {
	for _, cluster := range cfg.Clusters() {
		if !slices.Contains(report.Upstreams, cluster) {
			fmt.Fprintf(s.err, "%s: warning: cluster %q is declared, but no inner route in %s names it\n", c.File, cluster, c.Envoy)
		}
	}
	for _, operation := range cfg.RouteOperations() {
		if !slices.Contains(report.Operations, operation) {
			fmt.Fprintf(s.err, "%s: warning: route_operation %q is declared, but no inner route in %s has it in its metadata\n", c.File, operation, c.Envoy)
		}
	}
}
