package decisionapi

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

func TestBudgetService(t *testing.T) {
	l := newLab(t)
	ctx := within(t)
	if _, err := l.budget.Deposit(ctx, &retryv1.DepositRequest{Deposits: []*retryv1.Deposit{
		{Upstream: "a", FirstAttempts: 4}, {Upstream: "b", FirstAttempts: 10}, {Upstream: "a", FirstAttempts: 1},
	}}); err != nil {
		t.Fatal(err)
	}
	got, err := l.budget.Get(ctx, &retryv1.BudgetServiceGetRequest{Upstream: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if a := got.GetAccount(); a.GetFirstAttempts() != 5 || a.GetEarnedMilli() != 1000 || a.GetReserve() != 100 || a.GetInterval().AsDuration() != 10*time.Second {
		t.Errorf("a: %v", a)
	}
	earned, err := l.budget.Withdraw(ctx, &retryv1.WithdrawRequest{Upstream: "a"})
	if err != nil || earned.GetSource() != retryv1.Source_SOURCE_EARNED || earned.GetGrant() == "" {
		t.Errorf("first: %v, %v", earned, err)
	}
	reserve, err := l.budget.Withdraw(ctx, &retryv1.WithdrawRequest{Upstream: "a"})
	if err != nil || reserve.GetSource() != retryv1.Source_SOURCE_RESERVE {
		t.Errorf("second: %v, %v", reserve, err)
	}
	none, err := l.budget.Withdraw(ctx, &retryv1.WithdrawRequest{Upstream: "empty"})
	if err != nil || none.GetSource() != retryv1.Source_SOURCE_UNSPECIFIED || none.GetGrant() != "" {
		t.Errorf("from nothing: %v, %v", none, err)
	}
	if _, err := l.budget.Return(ctx, &retryv1.ReturnRequest{Grant: earned.GetGrant()}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.budget.Return(ctx, &retryv1.ReturnRequest{Grant: "never given"}); err != nil {
		t.Fatal(err)
	}
	list, err := l.budget.List(ctx, &retryv1.BudgetServiceListRequest{})
	if err != nil || len(list.GetAccounts()) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	if a := list.GetAccounts()[0]; a.GetUpstream() != "a" || a.GetRetries() != 1 || a.GetEarnedMilli() != 1000 || a.GetReserveLeft() != 99 {
		t.Errorf("a: %v", a)
	}
}

// A batch with one bad deposit pays in nothing.
func TestDepositIsAllOrNothing(t *testing.T) {
	l := newLab(t)
	_, err := l.budget.Deposit(within(t), &retryv1.DepositRequest{Deposits: []*retryv1.Deposit{
		{Upstream: "a", FirstAttempts: 5}, {Upstream: "b"},
	}})
	wantField(t, err, "deposits[1].first_attempts")
	if s := l.Budget.Account("a").State(); s.Firsts != 0 {
		t.Errorf("%+v", s)
	}
}

func TestWatchBudget(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(within(t))
	l.Budget.Account("b").Deposit(1)
	l.Budget.Account("a").Deposit(1)
	stream, err := l.budget.Watch(ctx, &retryv1.BudgetServiceWatchRequest{
		Upstreams: []string{"a"}, Every: durationpb.New(100 * time.Millisecond),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, firsts := range []int64{1, 3} {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if a := m.GetAccount(); a.GetUpstream() != "a" || a.GetFirstAttempts() != firsts {
			t.Errorf("%v, want %d first attempts", a, firsts)
		}
		l.Budget.Account("b").Deposit(1)
		l.Budget.Account("a").Deposit(2)
	}
	cancel()
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}
