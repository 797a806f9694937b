package app

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// HealthCmd asks a running service whether it serves, by the standard gRPC health service: the check of a
// container that has no shell.
type HealthCmd struct {
	Admin
	Timeout time.Duration `default:"2s" help:"How long to wait for the answer."`
}

// Run writes the status. Any other than SERVING is an error, as is no answer: a service that drains is
// not healthy.
func (c HealthCmd) Run(ctx context.Context, s streams) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.call(c.Server, func(conn *grpc.ClientConn) error {
		answer, err := healthv1.NewHealthClient(conn).Check(ctx, new(healthv1.HealthCheckRequest))
		if err != nil {
			return err
		}
		if answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			return fmt.Errorf("%s: %s", c.Server, answer.GetStatus())
		}
		_, err = fmt.Fprintln(s.out, answer.GetStatus())
		return err
	})
}
