package decisionapi

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/pkg/budget"
)

// defaultWatch is how often Watch looks where the caller does not say.
const defaultWatch = time.Second

// Budgets serves retry.v1.BudgetService.
type Budgets struct {
	retryv1.UnimplementedBudgetServiceServer

	Budget budget.Budget
	Grants *Grants
}

// Deposit is documented at retryv1.BudgetServiceServer, as are the others.
func (s *Budgets) Deposit(_ context.Context, req *retryv1.DepositRequest) (*retryv1.DepositResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	for _, d := range req.GetDeposits() {
		s.Budget.Account(d.GetUpstream()).Deposit(int(d.GetFirstAttempts()))
	}
	return new(retryv1.DepositResponse), nil
}

func (s *Budgets) Withdraw(ctx context.Context, req *retryv1.WithdrawRequest) (*retryv1.WithdrawResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	account := s.Budget.Account(req.GetUpstream())
	grant, ok := account.TryWithdraw(ctx)
	if !ok {
		return new(retryv1.WithdrawResponse), nil
	}
	return &retryv1.WithdrawResponse{
		Grant:  s.Grants.keep(account, grant),
		Source: retryv1.Source(grant.Source),
	}, nil
}

func (s *Budgets) Return(_ context.Context, req *retryv1.ReturnRequest) (*retryv1.ReturnResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	s.Grants.giveBack(req.GetGrant())
	return new(retryv1.ReturnResponse), nil
}

func (s *Budgets) Get(_ context.Context, req *retryv1.BudgetServiceGetRequest) (*retryv1.BudgetServiceGetResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	state := s.Budget.Account(req.GetUpstream()).State()
	return &retryv1.BudgetServiceGetResponse{Account: account(state)}, nil
}

func (s *Budgets) List(_ context.Context, req *retryv1.BudgetServiceListRequest) (*retryv1.BudgetServiceListResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	resp := new(retryv1.BudgetServiceListResponse)
	for _, state := range s.Budget.List() {
		resp.Accounts = append(resp.Accounts, account(state))
	}
	return resp, nil
}

func (s *Budgets) Watch(req *retryv1.BudgetServiceWatchRequest, stream grpc.ServerStreamingServer[retryv1.BudgetServiceWatchResponse]) error {
	if err := validate(req); err != nil {
		return err
	}
	every := defaultWatch
	if req.Every != nil {
		every = req.GetEvery().AsDuration()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	sent := map[string]budget.State{}
	for {
		seen := map[string]budget.State{}
		for _, state := range s.Budget.List() {
			if len(req.GetUpstreams()) > 0 && !slices.Contains(req.GetUpstreams(), state.Upstream) {
				continue
			}
			seen[state.Upstream] = state
			if before, ok := sent[state.Upstream]; ok && before == state {
				continue
			}
			if err := stream.Send(&retryv1.BudgetServiceWatchResponse{Account: account(state)}); err != nil {
				return err
			}
		}
		sent = seen
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-ticker.C:
		}
	}
}

func account(s budget.State) *retryv1.Account {
	return &retryv1.Account{
		Upstream:      s.Upstream,
		EarnedMilli:   s.EarnedMilli,
		ReserveLeft:   s.ReserveLeft,
		FirstAttempts: s.Firsts,
		Retries:       s.Retries,
		Refused:       s.Refused,
		RatioMilli:    uint32(max(s.Settings.Ratio, 0)),
		Reserve:       uint32(max(s.Settings.Reserve, 0)),
		Interval:      durationpb.New(s.Settings.Interval),
	}
}
