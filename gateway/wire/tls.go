package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	"breakwater/gateway/exchange"
)

// handshakeError is a connection that was made and not secured.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// tlsDial opens connections by dial and secures them. An upstream is whom its
// certificate says: the name in cfg, or else the host that was dialled.
func tlsDial(dial dialFunc, cfg *tls.Config, protocol string) func(ctx context.Context, network, address string) (*tls.Conn, error) {
	return func(ctx context.Context, network, address string) (*tls.Conn, error) {
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := cfg.Clone()
		own.NextProtos = []string{protocol}
		if own.ServerName == "" {
			if own.ServerName, _, err = net.SplitHostPort(address); err != nil {
				_ = nc.Close()
				return nil, err
			}
		}
		c := tls.Client(nc, own)
		if err := c.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			if ctx.Err() != nil {
				return nil, ctx.Err() // no answer in time: as if it had not come up
			}
			return nil, &handshakeError{err}
		}
		return c, nil
	}
}

// tlsConn lets the pool look at the connection below: an idle one has nothing to
// say in TLS either.
type tlsConn struct{ *tls.Conn }

func (c tlsConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.NetConn().(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// TLSPool is a Pool whose connections are secured.
type TLSPool struct{ *Pool }

// NewTLSPool returns an empty pool. cfg.Dial opens connections in the clear.
func NewTLSPool(cfg Config, secure *tls.Config) TLSPool {
	cfg = cfg.filled()
	shake := tlsDial(cfg.Dial, secure, "http/1.1")
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := shake(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return tlsConn{c}, nil
	}
	return TLSPool{NewPool(cfg)}
}

// Serve is Pool.Serve with the handshake's failures under their own name.
func (p TLSPool) Serve(x *exchange.Exchange) error {
	err := p.Pool.Serve(x)
	if ue, ok := errors.AsType[*exchange.UpstreamError](err); ok && ue.Kind == exchange.Dial {
		if _, shaking := errors.AsType[*handshakeError](ue.Err); shaking {
			ue.Kind = exchange.TLS
		}
	}
	return err
}
