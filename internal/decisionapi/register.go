package decisionapi

import (
	"context"
	"slices"

	"google.golang.org/grpc"
)

// Register is r.RegisterService for a server that was made with Codec: bytes that are no message of the
// request's type are INVALID_ARGUMENT.
func Register(r grpc.ServiceRegistrar, desc grpc.ServiceDesc, service any) {
	desc.Methods = slices.Clone(desc.Methods)
	for i, m := range desc.Methods {
		desc.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(srv, ctx, func(v any) error { return codec.failure(v, decode(v)) }, interceptor)
		}
	}
	desc.Streams = slices.Clone(desc.Streams)
	for i, s := range desc.Streams {
		desc.Streams[i].Handler = func(srv any, stream grpc.ServerStream) error {
			return s.Handler(srv, decodingStream{stream})
		}
	}
	r.RegisterService(&desc, service)
}

type decodingStream struct{ grpc.ServerStream }

func (s decodingStream) RecvMsg(m any) error { return codec.failure(m, s.ServerStream.RecvMsg(m)) }
