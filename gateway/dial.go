package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"breakwater/gateway/config"
)

// guarded opens connections, and looks at each address at the moment it is dialed:
// a name that was harmless when its document was read may resolve to the metadata
// service now.
func guarded(resolver *net.Resolver) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Resolver: resolver, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("dial %s: %w", address, err)
		}
		if why := config.Forbidden(at.Addr()); why != "" {
			return fmt.Errorf("dial %s: no upstream may be %s", address, why)
		}
		return nil
	}}
	return dialer.DialContext
}
