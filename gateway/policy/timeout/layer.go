package timeout

import (
	"context"
	"errors"
	"time"

	"breakwater/gateway/exchange"
)

// Total bounds the whole request, tries and back-off and body included, to d. A
// request whose deadline has passed on arrival is not sent at all.
//
// The deadline stays in force after Serve, for the body; answers that are
// streams by nature leave it at their head.
func Total(d time.Duration) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		return exchange.Func(func(x *exchange.Exchange) error {
			now := time.Now()
			before, _ := x.Deadline()
			deadline, _ := Lower(before, now, d)
			if !deadline.IsZero() && !now.Before(deadline) {
				x.Event.Timeout = "total"
				return exchange.ErrTotalTimeout
			}
			x.SetDeadline(deadline)
			err := next.Serve(x)
			if err == nil {
				if x.IsStream() {
					x.SetDeadline(time.Time{})
				}
				return nil
			}
			x.SetDeadline(before)
			if errors.Is(err, context.DeadlineExceeded) && !deadline.IsZero() && !time.Now().Before(deadline) {
				x.Event.Timeout = "total"
				return exchange.ErrTotalTimeout
			}
			return err
		})
	}
}

// PerTry bounds the time from here to the head of the answer to d, or to what is
// left of the total where that is less. The body is the total deadline's matter:
// a try that has answered is not worth cutting for having begun late.
func PerTry(d time.Duration) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		return exchange.Func(func(x *exchange.Exchange) error {
			before, _ := x.Deadline()
			deadline, lowered := Lower(before, time.Now(), d)
			x.SetDeadline(deadline)
			err := next.Serve(x)
			x.SetDeadline(before)
			if err == nil || !lowered || !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			ue, ok := errors.AsType[*exchange.UpstreamError](err)
			if ok && (ue.Kind == exchange.ConnectTimeout || ue.Kind == exchange.HeaderTimeout) {
				return err // says more: a limit of the wire's own, that was lower still
			}
			return &exchange.UpstreamError{Kind: exchange.TryTimeout, Endpoint: x.Endpoint, Err: context.DeadlineExceeded}
		})
	}
}

// Streams gives an answer that is a stream, which leaves the deadline made for
// answers at its head, bounds of its own: idle is the longest silence, of the
// request's body too, and longest the longest life from the head on; 0: none. It
// stands outside Total.
func Streams(idle, longest time.Duration) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		return exchange.Func(func(x *exchange.Exchange) error {
			x.Idle = idle
			err := next.Serve(x)
			if err == nil && x.IsStream() {
				x.Streaming = true
				if longest > 0 {
					x.SetDeadline(time.Now().Add(longest))
				}
			}
			return err
		})
	}
}
