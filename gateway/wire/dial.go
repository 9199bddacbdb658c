package wire

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"breakwater/gateway/exchange"
)

// Dialer opens connections to upstreams. It looks at the address that a name has
// become, each time: a name may mean another address than when it was written
// down, and whoever can make it the metadata service of our cloud reads our keys.
func Dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("dial %s: not an address", address)
		}
		if why := exchange.Forbidden(ap.Addr()); why != "" {
			return fmt.Errorf("dial %s: must not be %s", address, why)
		}
		return nil
	}}
}
