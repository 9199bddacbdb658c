package balance

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"breakwater/gateway/exchange"
)

// A name that does not resolve and a host that refuses are told apart.
func TestTheCauseOfAFailedDial(t *testing.T) {
	dialed := func(err error) error { return &net.OpError{Op: "dial", Err: err} }
	noName := &net.DNSError{Err: "no such host", Name: "stock.example", IsNotFound: true}
	for _, tt := range []struct {
		kind exchange.Kind
		err  error
		want string
	}{
		{exchange.Dial, dialed(noName), "dns"},
		{exchange.ConnectTimeout, fmt.Errorf("%w: %w", context.DeadlineExceeded, noName), "dns"},
		{exchange.Dial, dialed(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "refused"},
		{exchange.Dial, dialed(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "unreachable"},
		{exchange.ConnectTimeout, context.DeadlineExceeded, ""},
		{exchange.Write, dialed(syscall.ECONNREFUSED), ""}, // there was a connection
	} {
		if got := cause(&exchange.UpstreamError{Kind: tt.kind, Err: tt.err}, string(tt.kind)); got != tt.want {
			t.Errorf("%s of %v: %q, want %q", tt.kind, tt.err, got, tt.want)
		}
	}
}
