package timeout

import (
	"context"
	"errors"
	"strings"
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
				if Stream(x) {
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
			if ok && ue.Kind == exchange.ConnectTimeout {
				return err // says more: nothing was sent
			}
			return &exchange.UpstreamError{Kind: exchange.TryTimeout, Endpoint: x.Endpoint, Err: context.DeadlineExceeded}
		})
	}
}

// Stream reports whether the answer is one that lasts for as long as its two
// ends like, so that a deadline made for answers must not cut it.
func Stream(x *exchange.Exchange) bool {
	if x.Response.Tunnel != nil {
		return true
	}
	kind := x.Response.Head.Get("Content-Type")
	if mime, _, _ := strings.Cut(kind, ";"); strings.EqualFold(strings.TrimSpace(mime), "text/event-stream") {
		return true
	}
	return strings.HasPrefix(kind, "application/grpc") && !x.Request.Head.Has("Grpc-Timeout")
}
