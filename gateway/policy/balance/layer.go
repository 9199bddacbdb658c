package balance

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Layer sends each try to an endpoint of cfg, by what p knows of them. It opens
// the try's entry in the event and closes it with status or kind and latency.
func Layer(cfg Config, p *Pool) exchange.Layer {
	cfg = cfg.filled()
	endpoints := p.Endpoints(cfg, time.Now())
	p.limit(cfg.Ejection)
	return func(next exchange.Service) exchange.Service {
		return &balancer{cfg, p, endpoints, next}
	}
}

type balancer struct {
	cfg       Config
	pool      *Pool
	endpoints []*Endpoint
	next      exchange.Service
}

// Serve implements exchange.Service.
func (b *balancer) Serve(x *exchange.Exchange) error {
	start := time.Now()
	mark := x.Mark()
	e, passes, refusal := b.admit(x, start)
	if e == nil {
		return refusal
	}
	x.Endpoint = e.Address
	x.Event.Tries = append(x.Event.Tries, retrylog.Try{Endpoint: e.Address})
	e.inFlight.Add(1)
	x.OnEnd(e)

	err := b.next.Serve(x)

	now := time.Now()
	x.HeadAt = now
	status := x.Response.Judged()
	r := Result{Outcome: exchange.Classify(err, status), Status: status, Took: now.Sub(start)}
	try := x.Try()
	try.LatencyUS = r.Took.Microseconds()
	if err == nil {
		try.Status = r.Status
		r.RetryAfter = retryAfter(x.Response.Head.Get("Retry-After"), now)
	} else if try.Kind == "" {
		try.Kind = string(kind(err, r.Outcome))
		try.Cause = cause(err, try.Kind)
	}
	e.Observe(&b.cfg, now, r)
	b.pool.judge(&b.cfg, e, b.endpoints, now, r)
	for _, p := range passes {
		if p != nil {
			p.Answered(x, now, r)
		}
	}
	if err != nil {
		x.EndTo(mark, r.Outcome)
	}
	return err
}

// kind names an error for the event; the fault layer and the timeouts may
// return others than the wire's own.
func kind(err error, o retrylog.Outcome) exchange.Kind {
	if ue, ok := errors.AsType[*exchange.UpstreamError](err); ok {
		return ue.Kind
	}
	if o == retrylog.Timeout || o == retrylog.ClientAbort {
		return exchange.Canceled
	}
	return ""
}

// cause says why there was no connection. A name that does not resolve and a host
// that refuses are two outages with two people to call.
func cause(err error, kind string) string {
	if kind != string(exchange.Dial) && kind != string(exchange.ConnectTimeout) {
		return ""
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "dns"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	}
	return ""
}

// retryAfter reads both forms of the field (RFC 9110 section 10.2.3); anything
// else counts as none.
func retryAfter(v string, now time.Time) time.Duration {
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
