// Package accesslog serves Envoy's access-log stream of the inner hop: first attempts fund the retry
// budget, and answers that were cut off half-way are reported, which no filter can see.
package accesslog

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"

	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/telemetry"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// Server takes access-log entries. An entry that says too little is not counted: a deposit that is
// missing costs a retry, one too many would fund a flood.
type Server struct {
	alsv3.UnimplementedAccessLogServiceServer

	Budget budget.Budget
	// Ledger is where answers that were cut off are entered, as far as they are uncertain by what Config
	// returns; nil is nowhere.
	Ledger  ledger.Ledger
	Config  func() *config.Config
	Metrics *telemetry.Metrics
	Log     *slog.Logger
}

// StreamAccessLogs reads entries until Envoy ends the stream.
func (s *Server) StreamAccessLogs(stream grpc.ClientStreamingServer[alsv3.StreamAccessLogsMessage, alsv3.StreamAccessLogsResponse]) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
			return nil
		}
		if err != nil {
			return err
		}
		s.take(m)
	}
}

// take deposits once per upstream and message: Envoy sends entries in batches.
func (s *Server) take(m *alsv3.StreamAccessLogsMessage) {
	first := map[string]int{}
	for _, entry := range m.GetHttpLogs().GetLogEntry() {
		e := evidence.FromAccessLog(entry)
		if e.First {
			first[e.Upstream]++
		}
		if e.CutOff {
			s.Metrics.CutOff(e.Upstream)
			s.Log.Warn("answer cut off", "evidence", "PARTIAL_RESPONSE", "upstream", e.Upstream,
				"case", e.ID, "method", e.Method, "path", e.Path, "cause", e.Details)
			s.enter(e)
		}
	}
	for upstream, n := range first {
		s.Budget.Account(upstream).Deposit(n)
		s.Metrics.FirstAttempts(upstream, n)
	}
}

// cutOff is the decision on an answer that was cut off after its caller had part of it: rule 4.
var cutOff = decision.Decision{
	Verdict: decision.Denied, Reason: decision.ReasonResponseAlreadyDelivered, Rule: 4,
	Evidence: decision.PartialResponse, Execution: decision.ExecutionUnknown, Uncertain: true,
}

// cutOffRules is the ladder of cutOff: no other rule is asked.
var cutOffRules = []decision.RuleOutcome{{
	Number: cutOff.Rule, Name: "response_already_delivered", Verdict: cutOff.Verdict, Reason: cutOff.Reason,
}}

// enter writes down what the caller of a cut-off answer does not know, except where the operation has no
// effect that could be open. The route's operation is not known here, nor the path as it was before the
// route, so the strictest class holds.
func (s *Server) enter(e evidence.Ended) {
	if s.Ledger == nil {
		return
	}
	class := s.Config().Strictest(e.Method, e.Path)
	if class == decision.Safe {
		return
	}
	id := e.ID
	if id == "" {
		id = rand.Text()
	}
	s.Ledger.Enter(ledger.Entry{
		CaseID: id, Upstream: e.Upstream, Method: e.Method, Path: e.Path, Cause: e.Details, Decision: cutOff,
		Facts: decision.Facts{Evidence: cutOff.Evidence, Delivery: decision.Delivered, Idempotency: class},
		Rules: cutOffRules,
	})
}
