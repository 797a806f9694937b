package app

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// LedgerCmd shows and resolves uncertain outcomes; it writes one case a line, as JSON.
type LedgerCmd struct {
	List    LedgerListCmd    `cmd:"" help:"Show cases, the newest first."`
	Watch   LedgerWatchCmd   `cmd:"" help:"Show cases when they are entered and when they are resolved."`
	Get     LedgerGetCmd     `cmd:"" help:"Show one case."`
	Resolve LedgerResolveCmd `cmd:"" help:"Write down what reconciliation found."`
}

type (
	// CaseFlags select cases.
	CaseFlags struct {
		Upstream  string         `help:"Of this upstream."`
		Operation string         `help:"Of this declared operation."`
		State     string         `help:"open, executed, not_executed or given_up."`
		Newer     *time.Duration `placeholder:"AGE" help:"Entered within this time, such as 1h."`
		Older     *time.Duration `placeholder:"AGE" help:"Entered before that."`
	}
	// LedgerListCmd shows cases.
	LedgerListCmd struct {
		Admin
		CaseFlags
		Limit uint32 `default:"100" help:"At most this many; 0 is all."`
	}
	// LedgerWatchCmd shows cases as they come.
	LedgerWatchCmd struct {
		Admin
		CaseFlags
	}
	// LedgerGetCmd shows one case.
	LedgerGetCmd struct {
		Admin
		Case string `arg:"" help:"The case, as in x-retry-ambiguity-id."`
	}
	// LedgerResolveCmd resolves a case.
	LedgerResolveCmd struct {
		Admin
		Case  string `arg:"" help:"The case, as in x-retry-ambiguity-id."`
		State string `arg:"" enum:"executed,not_executed,given_up" help:"executed, not_executed or given_up."`
		Note  string `help:"What was found, for people."`
	}
)

func (f CaseFlags) message() (*retryv1.CaseFilter, error) {
	state, err := enum[retryv1.CaseState]("state", "CASE_STATE_", f.State, retryv1.CaseState_value)
	if err != nil {
		return nil, err
	}
	m := &retryv1.CaseFilter{Upstream: f.Upstream, Operation: f.Operation, State: state}
	if f.Newer != nil {
		m.Since = timestamppb.New(time.Now().Add(-*f.Newer))
	}
	if f.Older != nil {
		m.Until = timestamppb.New(time.Now().Add(-*f.Older))
	}
	return m, nil
}

func (a Admin) ledger(use func(retryv1.LedgerServiceClient) error) error {
	return a.call(a.Server, func(conn *grpc.ClientConn) error { return use(retryv1.NewLedgerServiceClient(conn)) })
}

// Run is documented at the type, as are the others.
func (c LedgerListCmd) Run(ctx context.Context, s streams) error {
	filter, err := c.CaseFlags.message()
	if err != nil {
		return err
	}
	return c.ledger(func(l retryv1.LedgerServiceClient) error {
		req := &retryv1.LedgerServiceListRequest{Filter: filter, PageSize: 1000}
		for left := int(c.Limit); ; {
			if c.Limit > 0 {
				req.PageSize = uint32(min(left, 1000))
			}
			resp, err := l.List(ctx, req)
			if err != nil {
				return err
			}
			for _, found := range resp.GetCases() {
				if err := printJSON(s.out, found, false); err != nil {
					return err
				}
			}
			left -= len(resp.GetCases())
			req.PageToken = resp.GetNextPageToken()
			if req.PageToken == "" || c.Limit > 0 && left <= 0 {
				return nil
			}
		}
	})
}

func (c LedgerWatchCmd) Run(ctx context.Context, s streams) error {
	filter, err := c.CaseFlags.message()
	if err != nil {
		return err
	}
	return c.ledger(func(l retryv1.LedgerServiceClient) error {
		stream, err := l.Watch(ctx, &retryv1.LedgerServiceWatchRequest{Filter: filter})
		if err != nil {
			return err
		}
		return printStream(ctx, s.out, stream)
	})
}

func (c LedgerGetCmd) Run(ctx context.Context, s streams) error {
	return c.ledger(func(l retryv1.LedgerServiceClient) error {
		resp, err := l.Get(ctx, &retryv1.LedgerServiceGetRequest{CaseId: c.Case})
		if err != nil {
			return err
		}
		return printJSON(s.out, resp.GetCase(), false)
	})
}

func (c LedgerResolveCmd) Run(ctx context.Context, s streams) error {
	state, err := enum[retryv1.CaseState]("state", "CASE_STATE_", c.State, retryv1.CaseState_value)
	if err != nil {
		return err
	}
	return c.ledger(func(l retryv1.LedgerServiceClient) error {
		resp, err := l.Resolve(ctx, &retryv1.LedgerServiceResolveRequest{CaseId: c.Case, State: state, Note: c.Note})
		if err != nil {
			return err
		}
		return printJSON(s.out, resp.GetCase(), false)
	})
}
