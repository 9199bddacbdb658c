package fault

import (
	"math"
	"net/netip"
	"strconv"
	"strings"

	"breakwater/gateway/exchange"
)

// The fields by which Envoy's HTTP fault filter is asked for faults, and the share
// of requests that each is for.
const (
	envoyPrefix     = "x-envoy-fault-"
	envoyDelay      = envoyPrefix + "delay-request"      // milliseconds
	envoyAbort      = envoyPrefix + "abort-request"      // HTTP status
	envoyAbortGRPC  = envoyPrefix + "abort-grpc-request" // gRPC status
	envoyThroughput = envoyPrefix + "throughput-response"
	envoyShare      = "-percentage"
)

// EnvoyHeaders has requests of trusted peers ask for faults by Envoy's fields. Such a
// fault lives as long as its request, within the caps and under the kill switch; the
// upstream never sees who asked. The layer stands just above Layer.
func EnvoyHeaders(t *Table, s Site, trusted func(netip.Addr) bool) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		if s.Exempt {
			return next
		}
		return &envoy{injector{table: t, site: s, next: next}, trusted}
	}
}

type envoy struct {
	injector
	trusted func(netip.Addr) bool
}

// Serve implements exchange.Service.
func (e *envoy) Serve(x *exchange.Exchange) error {
	asks := false
	for _, f := range x.Request.Head.Fields() {
		asks = asks || envoyField(f)
	}
	if !asks {
		return e.next.Serve(x)
	}
	var d due
	if peer, err := netip.ParseAddr(x.Request.Peer); err == nil && e.trusted(peer) {
		e.read(x, &d)
	}
	// For this try alone: a retry asks again.
	var before exchange.Head
	before.CopyFrom(&x.Request.Head)
	x.Request.Head.Keep(func(f exchange.Field) bool { return !envoyField(f) })
	defer func() { x.Request.Head.CopyFrom(&before) }()
	if d.none() {
		return e.next.Serve(x)
	}
	return e.inject(x, &d)
}

func envoyField(f exchange.Field) bool {
	return len(f.Name) > len(envoyPrefix) && strings.EqualFold(f.Name[:len(envoyPrefix)], envoyPrefix)
}

// read adds to d what x asks for and is to have. What is no number asks for nothing.
func (e *envoy) read(x *exchange.Exchange, d *due) {
	caps, stop := e.table.terms()
	if stop == nil {
		return // halted
	}
	x.Event.Synthetic = Asked
	for _, ask := range []struct {
		field       string
		least, most int64
		fault       func(n int64) Fault
	}{
		{envoyDelay, 1, mostMS, func(n int64) Fault {
			return Fault{Kind: Latency, LatencyMS: min(n, caps.MaxLatency.Milliseconds())}
		}},
		{envoyAbort, 200, 599, func(n int64) Fault {
			return Fault{Kind: Error, Status: int(n), Body: "fault filter abort"}
		}},
		{envoyAbortGRPC, 1, 16, func(n int64) Fault {
			return Fault{Kind: GRPC, Status: int(n), Body: "fault filter abort"}
		}},
		{envoyThroughput, 1, 1 << 20, func(n int64) Fault { return Fault{Kind: Drip, BytesPerSecond: n << 10} }},
	} {
		n := number(x, ask.field, ask.least, ask.most)
		if n < 0 {
			continue
		}
		share := ask.field
		if share == envoyAbortGRPC { // the two kinds of abort have one share
			share = envoyAbort
		}
		ppm := int64(1_000_000)
		if x.Request.Head.Has(share + envoyShare) {
			ppm = max(number(x, share+envoyShare, 0, 100), 0) * 10_000
		}
		h := hashTry(ask.field, x.Event.RequestID, max(len(x.Event.Tries), 1))
		if !under(h, min(ppm, caps.MaxPPM)) {
			continue
		}
		f := ask.fault(n)
		f.ID = "envoy-" + string(f.Kind)
		c := &cell{Fault: f, gone: stop, counts: new(counts)}
		c.until.Store(math.MaxInt64 / 2)
		d.add(c, h)
	}
}

// number reads a field, or returns -1 where it is none from least to most.
func number(x *exchange.Exchange, name string, least, most int64) int64 {
	n, err := strconv.ParseInt(x.Request.Head.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		return -1
	}
	return n
}
