package app

import (
	"time"

	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/verdictproxy/verdict/internal/accesslog"
	"github.com/verdictproxy/verdict/internal/extproc"
)

// streamWorkers is how many streams find a goroutine whose stack has grown already; to grow a new one
// costs a tenth of a decision. Further ones, such as thousands that wait, get goroutines of their own.
const streamWorkers = 32

// dataPlaneServer makes the gRPC server that Envoy calls.
func (s *service) dataPlaneServer() *grpc.Server {
	server := grpc.NewServer(append(interceptors(s.log),
		// Envoy's connection_keepalive may ping as often as its operator likes. The default would close
		// the connection, and every wait on it, after the third ping within five minutes.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Millisecond, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.WaitForHandlers(true), // a token goes back before the budget closes
	)...)
	extprocv3.RegisterExternalProcessorServer(server, s.extproc())
	alsv3.RegisterAccessLogServiceServer(server, s.accesslog())
	healthv1.RegisterHealthServer(server, s.health)
	reflection.Register(server)
	return server
}

func (s *service) extproc() *extproc.Server {
	return &extproc.Server{
		Config:      s.api.config,
		Budget:      s.api.budget,
		Drain:       s.drain,
		Runtime:     s.api.switches.Runtime,
		Shadow:      s.flags.shadows,
		Credentials: s.credential,
		Ledger:      s.api.ledger,
		Recent:      s.api.recent,
		Metrics:     s.api.metrics,
		Tracer:      s.api.tracer,
		Log:         s.log,
	}
}

func (s *service) accesslog() *accesslog.Server {
	return &accesslog.Server{
		Config:  s.api.config,
		Budget:  s.api.budget,
		Ledger:  s.api.ledger,
		Metrics: s.api.metrics,
		Log:     s.log,
	}
}
