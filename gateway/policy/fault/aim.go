package fault

import (
	"slices"
	"strings"
	"time"

	"breakwater/gateway/exchange"
)

// The units by which a share is decided.
const (
	KeyAttempt    = "attempt"
	KeyRequest    = "request"
	KeyTrace      = "trace"
	KeyTenant     = "tenant"
	KeyConnection = "connection"
)

// keys are the units there are.
func keys() []string { return []string{KeyAttempt, KeyRequest, KeyTrace, KeyTenant, KeyConnection} }

// aims reports whether the fault's target holds x.
func (c *cell) aims(x *exchange.Exchange, s Site) bool {
	t := &c.Target
	if !among(t.Routes, s.Route) || !among(t.Methods, x.Request.Method) || !among(t.Callers, x.Event.Caller) || !among(t.Tenants, x.Event.Tenant) ||
		t.Endpoint != "" && t.Endpoint != x.Endpoint ||
		slices.Contains(t.ExcludeCallers, x.Event.Caller) || slices.Contains(t.ExcludeTenants, x.Event.Tenant) {
		return false
	}
	for i := range t.Headers {
		if !carries(&x.Request.Head, &t.Headers[i]) {
			return false
		}
	}
	if !t.OptIn {
		return true
	}
	if x.Request.Head.Get(OptInHeader) != c.Run {
		return false
	}
	x.Event.Synthetic = Asked // hit or not: nobody asks for a fault on behalf of a user
	return true
}

func among(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }

// carries reports whether some field is what in asks for: any of several of one
// name may be.
func carries(head *exchange.Head, in *HeaderIn) bool {
	for _, f := range head.Fields() {
		if strings.EqualFold(f.Name, in.Name) && among(in.Values, f.Value) {
			return true
		}
	}
	return false
}

// hits decides about x, once for the unit that Key names, and returns the hash
// that did. The share grows while a ramp lasts.
func (c *cell) hits(x *exchange.Exchange, at int64) (h uint64, hit bool) {
	h = c.hashOf(x)
	ppm := c.PPM
	if ramp := c.RampMS * int64(time.Millisecond); ramp > 0 {
		if age := at - c.armed; age < ramp {
			// The product stays below 2^63: a day of nanoseconds is below 2^47, and
			// the share is taken in steps of 64 ppm.
			ppm = (ppm >> 6) * age / ramp << 6
		}
	}
	return h, under(h, ppm)
}

// on reports whether a fault that comes and goes is there at an instant since the
// table's base.
func (c *cell) on(at int64) bool {
	if c.EveryMS == 0 {
		return true
	}
	every, lasts := c.EveryMS*int64(time.Millisecond), c.ForMS*int64(time.Millisecond)
	return (c.wall+at)%every < lasts
}

// take claims one of the units that First leaves.
func (c *cell) take() bool {
	return c.First == 0 || c.taken.Add(1) <= c.First
}

func (c *cell) hashOf(x *exchange.Exchange) uint64 {
	switch c.Key {
	case KeyRequest:
		return hash(c.Seed, x.Event.RequestID)
	case KeyTenant:
		if x.Event.Tenant != "" {
			return hash(c.Seed, x.Event.Tenant)
		}
		// Who belongs to no tenant is a unit alone: together they would be one so
		// large that a small share of units hits all traffic or none.
		return hash(c.Seed, x.Event.RequestID)
	case KeyConnection:
		return hash(c.Seed, x.Request.Connection)
	case KeyTrace:
		// 00-<32 digits of trace id>-<parent>-<flags> (W3C Trace Context, section 3.2)
		if parent := x.Request.Head.Get("traceparent"); len(parent) >= 35 {
			return hash(c.Seed, parent[3:35])
		}
		return hash(c.Seed, x.Event.RequestID)
	}
	return hashTry(c.Seed, x.Event.RequestID, max(len(x.Event.Tries), 1))
}
