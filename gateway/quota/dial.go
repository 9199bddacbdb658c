package quota

import (
	"context"
	"crypto/tls"
	"net"
)

// dialTLS speaks TLS on connections of dial.
func dialTLS(dial func(ctx context.Context, network, address string) (net.Conn, error), cfg *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(raw, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		return secure, nil
	}
}
