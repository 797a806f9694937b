package decisionapi

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/recent"
	"github.com/verdictproxy/verdict/internal/switches"
)

// Admin serves retry.v1.AdminService.
type Admin struct {
	retryv1.UnimplementedAdminServiceServer

	Switches *switches.Switches
	Recent   *recent.Decisions
	Log      *slog.Logger
}

// DrainUpstream is documented at retryv1.AdminServiceServer, as are the others.
func (s *Admin) DrainUpstream(ctx context.Context, req *retryv1.DrainUpstreamRequest) (*retryv1.DrainUpstreamResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	if err := s.Switches.Drain(req.GetUpstream()); err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	s.Log.Warn("upstream drained: no retry towards it", "upstream", req.GetUpstream(), caller(ctx))
	return new(retryv1.DrainUpstreamResponse), nil
}

func (s *Admin) UndrainUpstream(ctx context.Context, req *retryv1.UndrainUpstreamRequest) (*retryv1.UndrainUpstreamResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	s.Switches.Undrain(req.GetUpstream())
	s.Log.Warn("upstream undrained", "upstream", req.GetUpstream(), caller(ctx))
	return new(retryv1.UndrainUpstreamResponse), nil
}

func (s *Admin) SetKillSwitch(ctx context.Context, req *retryv1.SetKillSwitchRequest) (*retryv1.SetKillSwitchResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	on := req.GetKillSwitch() == retryv1.KillSwitch_KILL_SWITCH_ON
	s.Switches.SetKill(on)
	s.Log.Warn("kill switch set: while it is on there is no retry", "on", on, caller(ctx))
	return new(retryv1.SetKillSwitchResponse), nil
}

func (s *Admin) GetDrained(context.Context, *retryv1.GetDrainedRequest) (*retryv1.GetDrainedResponse, error) {
	resp := &retryv1.GetDrainedResponse{KillSwitch: retryv1.KillSwitch_KILL_SWITCH_OFF, Upstreams: s.Switches.Drained()}
	if s.Switches.Killed() {
		resp.KillSwitch = retryv1.KillSwitch_KILL_SWITCH_ON
	}
	return resp, nil
}

func (s *Admin) Why(_ context.Context, req *retryv1.WhyRequest) (*retryv1.WhyResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	resp := new(retryv1.WhyResponse)
	for _, d := range s.Recent.Find(req.GetId()) {
		q := question{operation: text(d.Operation), facts: d.Facts}
		past := &retryv1.PastDecision{
			Time:      timestamppb.New(d.Time),
			Decision:  &q.answer(d.Decision).decision,
			Attempt:   uint32(max(d.Attempts, 0)),
			RequestId: text(d.RequestID),
			Upstream:  text(d.Upstream),
			Method:    text(d.Method),
			Path:      text(d.Path),
			Cause:     text(d.Cause),
			Facts:     d.Given(),
			Rules:     ledger.Ladder(d.Rules),
		}
		if d.Decision.Uncertain {
			past.CaseId = text(d.CaseID)
		}
		resp.Decisions = append(resp.Decisions, past)
	}
	return resp, nil
}
