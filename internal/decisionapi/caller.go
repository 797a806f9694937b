package decisionapi

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// caller is who calls, for the log: the first name in the certificate that the listener has verified, else the
// address.
func caller(ctx context.Context) slog.Attr {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return slog.String("caller", "")
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
		switch client := info.State.PeerCertificates[0]; {
		case len(client.URIs) > 0:
			return slog.String("caller", client.URIs[0].String())
		case len(client.DNSNames) > 0:
			return slog.String("caller", client.DNSNames[0])
		}
	}
	return slog.String("caller", p.Addr.String())
}
