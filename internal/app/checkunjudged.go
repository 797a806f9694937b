package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/envoycheck"
)

// unjudged reports whether Envoy's own word, where Verdict does not answer, would hide an outcome that the
// configuration calls uncertain: the filter goes by methods and statuses, and knows no declarations. Patterns
// without a method are left to whoever writes them.
func (c CheckCmd) unjudged(s streams, cfg *config.Config, report envoycheck.Report) (hides bool) {
	find := func(u envoycheck.Unjudged, format string, args ...any) {
		fmt.Fprintf(s.err, "%s:%d:%d: error: with Verdict down, the filter unjudged would hide what may have been executed: %s\n",
			c.Envoy, u.Line, u.Column, fmt.Sprintf(format, args...))
		hides = true
	}
	policies := []*retryv1.UpstreamPolicy{cfg.Message().GetDefaults()}
	var operations []*retryv1.Operation
	for _, u := range cfg.Message().GetUpstreams() {
		policies = append(policies, u.GetPolicy())
		operations = append(operations, u.GetOperations()...)
	}
	for _, u := range report.Unjudged {
		told := make(map[uint32]bool)
		for _, p := range policies {
			for _, status := range p.GetDistrustedStatuses() {
				if !told[status] && !u.Ambiguous(strconv.Itoa(int(status))) {
					told[status] = true
					find(u, "distrusted_statuses has %d, and it takes it at its word", status)
				}
			}
		}
		for _, o := range operations {
			method, _, _ := strings.Cut(o.GetPattern(), " ")
			if slices.Contains(u.Safe, method) && o.GetIdempotency() != "safe" {
				find(u, "%q is declared %s, and it takes %s for safe", o.GetPattern(), o.GetIdempotency(), method)
			}
		}
	}
	return hides
}
