package accesslog

import (
	"log/slog"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/ledger"
	ledgermemory "github.com/verdictproxy/verdict/internal/ledger/memory"
	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// Cut-off answers are cases, but for those of operations that have no effect.
func TestCutOffAnswersAreEntered(t *testing.T) {
	tokens := memory.New(nil, memory.Options{})
	defer tokens.Close()
	s := &Server{
		Budget: tokens, Ledger: ledgermemory.New(0, nil), Config: config.Default,
		Metrics: telemetry.New(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
	}
	const cut = "upstream_reset_after_response_started{connection_termination}"
	get := attempt(1, "app", cut)
	get.Request.RequestMethod = corev3.RequestMethod_GET
	nameless := attempt(1, "app", cut)
	nameless.CommonProperties.FilterStateObjects = nil
	s.take(batch(get, attempt(1, "app", "via_upstream"), attempt(2, "app", cut), nameless, (*accesslogv3.HTTPAccessLogEntry)(nil)))

	page, err := s.Ledger.List(t.Context(), ledger.Filter{}, 0, 10)
	if err != nil || len(page.Cases) != 2 || page.Cases[0].GetCaseId() == "" || page.Cases[0].GetCaseId() == "i1" {
		t.Fatalf("%v, %v", page, err)
	}
	want := ledger.Entry{CaseID: "i1", Upstream: "app", Method: "POST", Path: "/pay", Cause: cut, Decision: cutOff,
		Facts: decision.Facts{Evidence: decision.PartialResponse, Delivery: decision.Delivered, Idempotency: decision.NonIdempotent},
		Rules: cutOffRules}.Case(page.Cases[1].GetTime().AsTime())
	if diff := cmp.Diff(want, page.Cases[1], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// The one rule of a cut-off answer's ladder is the one that the nine rules would name.
func TestCutOffRules(t *testing.T) {
	_, all := decision.Explain(decision.Facts{Evidence: decision.PartialResponse, Delivery: decision.Delivered}, decision.DefaultPolicy(), 0)
	if diff := cmp.Diff(all[cutOff.Rule-1:cutOff.Rule], cutOffRules); diff != "" {
		t.Error(diff)
	}
}
