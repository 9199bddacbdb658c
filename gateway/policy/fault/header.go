package fault

import (
	"slices"

	"breakwater/gateway/exchange"
)

// changeRequest changes the fields of the request for this try alone, and
// returns what puts them back: a retry has to begin with what the client sent.
func (i *injector) changeRequest(x *exchange.Exchange, d *due) (restore func()) {
	var before exchange.Head
	changed := false
	for _, c := range d.headers {
		if c.Side != RequestSide || !c.changes(&x.Request.Head) || !i.alive(c) {
			continue
		}
		if !changed {
			changed = true
			before.CopyFrom(&x.Request.Head)
		}
		i.touch(x, d, c)
		c.change(&x.Request.Head)
	}
	return func() {
		if changed {
			x.Request.Head.CopyFrom(&before)
		}
	}
}

// changeAnswer does to the answer what is due, its body last.
func (i *injector) changeAnswer(x *exchange.Exchange, d *due) {
	for _, c := range d.headers {
		if c.Side == RequestSide || !c.changes(&x.Response.Head) || !i.alive(c) {
			continue
		}
		i.touch(x, d, c)
		c.change(&x.Response.Head)
	}
	if len(d.bodies) == 0 {
		return
	}
	later := d.later(x)
	for _, h := range d.bodies {
		if i.alive(h.cell) {
			i.changeBody(x, later, h)
		}
	}
}

// changes reports whether there is anything in head that change would make
// different: what is as the fault wants it was not injected.
func (c *cell) changes(head *exchange.Head) bool {
	return slices.ContainsFunc(c.Remove, head.Has) ||
		slices.ContainsFunc(c.headers, func(f exchange.Field) bool { v, ok := head.Lookup(f.Name); return !ok || v != f.Value })
}

func (c *cell) change(head *exchange.Head) {
	for _, name := range c.Remove {
		head.Del(name)
	}
	for _, f := range c.headers {
		head.Set(f.Name, f.Value)
	}
}
