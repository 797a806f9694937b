package app

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// BudgetCmd shows and moves the tokens of a running service; it writes one account a line, as JSON.
type BudgetCmd struct {
	List     BudgetListCmd     `cmd:"" help:"Show all accounts."`
	Get      BudgetGetCmd      `cmd:"" help:"Show one account."`
	Watch    BudgetWatchCmd    `cmd:"" help:"Show accounts whenever they change."`
	Deposit  BudgetDepositCmd  `cmd:"" help:"Pay in for first attempts."`
	Withdraw BudgetWithdrawCmd `cmd:"" help:"Take one token; exit code 1 if there is none."`
	Drain    DrainCmd          `cmd:"" help:"Grant nothing more towards upstreams; the same as extproc drain."`
}

type (
	// BudgetListCmd shows all accounts.
	BudgetListCmd struct{ Admin }
	// BudgetGetCmd shows one account.
	BudgetGetCmd struct {
		Admin
		Upstream string `arg:"" help:"The upstream."`
	}
	// BudgetWatchCmd shows accounts whenever they change.
	BudgetWatchCmd struct {
		Admin
		Every     time.Duration `default:"1s" help:"How often to look."`
		Upstreams []string      `arg:"" optional:"" help:"The upstreams; none: all."`
	}
	// BudgetDepositCmd pays in for first attempts.
	BudgetDepositCmd struct {
		Admin
		Upstream      string `arg:"" help:"The upstream."`
		FirstAttempts uint32 `arg:"" help:"How many first attempts there were."`
	}
	// BudgetWithdrawCmd takes one token.
	BudgetWithdrawCmd struct {
		Admin
		Upstream string `arg:"" help:"The upstream."`
	}
)

func (a Admin) budget(use func(retryv1.BudgetServiceClient) error) error {
	return a.call(a.Server, func(conn *grpc.ClientConn) error { return use(retryv1.NewBudgetServiceClient(conn)) })
}

// Run is documented at the type, as are the others.
func (c BudgetListCmd) Run(ctx context.Context, s streams) error {
	return c.budget(func(b retryv1.BudgetServiceClient) error {
		resp, err := b.List(ctx, new(retryv1.BudgetServiceListRequest))
		if err != nil {
			return err
		}
		for _, account := range resp.GetAccounts() {
			if err := printJSON(s.out, account, true); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c BudgetGetCmd) Run(ctx context.Context, s streams) error {
	return c.budget(func(b retryv1.BudgetServiceClient) error {
		resp, err := b.Get(ctx, &retryv1.BudgetServiceGetRequest{Upstream: c.Upstream})
		if err != nil {
			return err
		}
		return printJSON(s.out, resp.GetAccount(), true)
	})
}

func (c BudgetWatchCmd) Run(ctx context.Context, s streams) error {
	return c.budget(func(b retryv1.BudgetServiceClient) error {
		stream, err := b.Watch(ctx, &retryv1.BudgetServiceWatchRequest{
			Upstreams: c.Upstreams, Every: durationpb.New(c.Every),
		})
		if err != nil {
			return err
		}
		return printStream(ctx, s.out, stream)
	})
}

func (c BudgetDepositCmd) Run(ctx context.Context, _ streams) error {
	return c.budget(func(b retryv1.BudgetServiceClient) error {
		_, err := b.Deposit(ctx, &retryv1.DepositRequest{
			Deposits: []*retryv1.Deposit{{Upstream: c.Upstream, FirstAttempts: c.FirstAttempts}},
		})
		return err
	})
}

func (c BudgetWithdrawCmd) Run(ctx context.Context, s streams) error {
	return c.budget(func(b retryv1.BudgetServiceClient) error {
		resp, err := b.Withdraw(ctx, &retryv1.WithdrawRequest{Upstream: c.Upstream})
		if err != nil {
			return err
		}
		if resp.GetGrant() == "" {
			return errors.New("the budget has no token")
		}
		return printJSON(s.out, resp, false)
	})
}
