package app

import (
	"context"

	"google.golang.org/grpc"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

type (
	// DrainCmd denies every retry towards upstreams.
	DrainCmd struct {
		Admin
		All       bool     `help:"The kill switch: deny every retry towards every upstream."`
		Upstreams []string `arg:"" optional:"" help:"The upstreams. None, and not --all: show what is set."`
	}
	// UndrainCmd ends what DrainCmd began.
	UndrainCmd struct {
		Admin
		All       bool     `help:"Set the kill switch off. Upstreams that were drained one by one stay so."`
		Upstreams []string `arg:"" optional:"" help:"The upstreams."`
	}
)

// Validate is called by kong.
func (c UndrainCmd) Validate() error {
	if !c.All && len(c.Upstreams) == 0 {
		return badArgumentf("which upstream, or --all?")
	}
	return c.Admin.Validate()
}

// Run writes what is set afterwards as one line of JSON, as does UndrainCmd's.
func (c DrainCmd) Run(ctx context.Context, s streams) error {
	return c.admin(ctx, s, func(admin retryv1.AdminServiceClient) error {
		if c.All {
			return setKillSwitch(ctx, admin, retryv1.KillSwitch_KILL_SWITCH_ON)
		}
		return nil
	}, c.Upstreams, func(admin retryv1.AdminServiceClient, upstream string) error {
		_, err := admin.DrainUpstream(ctx, &retryv1.DrainUpstreamRequest{Upstream: upstream})
		return err
	})
}

func (c UndrainCmd) Run(ctx context.Context, s streams) error {
	return c.admin(ctx, s, func(admin retryv1.AdminServiceClient) error {
		if c.All {
			return setKillSwitch(ctx, admin, retryv1.KillSwitch_KILL_SWITCH_OFF)
		}
		return nil
	}, c.Upstreams, func(admin retryv1.AdminServiceClient, upstream string) error {
		_, err := admin.UndrainUpstream(ctx, &retryv1.UndrainUpstreamRequest{Upstream: upstream})
		return err
	})
}

func (a Admin) admin(ctx context.Context, s streams, all func(retryv1.AdminServiceClient) error, upstreams []string, each func(retryv1.AdminServiceClient, string) error) error {
	return a.call(a.Server, func(conn *grpc.ClientConn) error {
		admin := retryv1.NewAdminServiceClient(conn)
		if err := all(admin); err != nil {
			return err
		}
		for _, upstream := range upstreams {
			if err := each(admin, upstream); err != nil {
				return err
			}
		}
		set, err := admin.GetDrained(ctx, new(retryv1.GetDrainedRequest))
		if err != nil {
			return err
		}
		return printJSON(s.out, set, true)
	})
}

func setKillSwitch(ctx context.Context, admin retryv1.AdminServiceClient, to retryv1.KillSwitch) error {
	_, err := admin.SetKillSwitch(ctx, &retryv1.SetKillSwitchRequest{KillSwitch: to})
	return err
}
