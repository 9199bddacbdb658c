package gateway

import (
	"strconv"
	"time"

	"breakwater/gateway/exchange"
)

const grpcTimeout = "Grpc-Timeout"

// tellGRPC writes what is left into a gRPC request's timeout. Unlike the deadline
// of the mesh it is the total that counts: a server keeps to it for the whole call,
// and per_try_timeout ends at the head of the answer, before a stream has begun.
func tellGRPC(next exchange.Service) exchange.Service {
	return exchange.Func(func(x *exchange.Exchange) error {
		head := &x.Request.Head
		if head.Has(grpcTimeout) && exchange.IsGRPC(head) {
			if left, ok := x.Remaining(time.Now()); ok {
				head.Set(grpcTimeout, formatGRPCTimeout(left))
			}
		}
		return next.Serve(x)
	})
}

// formatGRPCTimeout rounds down, and never to nothing: 0 is a call that is over.
func formatGRPCTimeout(d time.Duration) string {
	const most = 99_999_999
	for _, u := range []struct {
		of     time.Duration
		letter string
	}{{time.Microsecond, "u"}, {time.Millisecond, "m"}} {
		if d/u.of <= most {
			return strconv.FormatInt(max(int64(d/u.of), 1), 10) + u.letter
		}
	}
	return strconv.FormatInt(min(int64(d/time.Second), most), 10) + "S"
}
