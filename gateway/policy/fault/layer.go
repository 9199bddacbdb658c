package fault

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Site is where a Layer stands: the route whose tries it sees.
type Site struct {
	Service, Route string
	// Exempt is for health, login and control routes: nothing is ever injected.
	Exempt bool
	// Edge is the outer of the two positions.
	Edge bool
}

// clock is what this package knows the time by.
func clock() time.Time { return time.Now() }

// Layer injects what t holds for the site. It stands innermost, below the timeout
// of the try, so that everything above reacts as if the upstream had done it; at
// the edge it stands outermost, and reacts to nobody.
func Layer(t *Table, s Site) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		if s.Exempt {
			return next
		}
		return &injector{table: t, site: s, next: next}
	}
}

type injector struct {
	table *Table
	site  Site
	next  exchange.Service
}

// Serve lets x through, after what is due was done to it.
func (i *injector) Serve(x *exchange.Exchange) error {
	live := i.table.live.Load()
	if live == nil {
		return i.next.Serve(x)
	}
	cells := live.at(i.site.Edge)[i.site.Service]
	if len(cells) == 0 {
		return i.next.Serve(x)
	}
	return i.serve(x, cells)
}

// hit is a fault that x is hit by, with the hash that said so.
type hit struct {
	*cell
	hash uint64
}

// due is what hits one try, in the order in which it acts.
type due struct {
	before, after []hit // latencies
	abort         *cell // what ends the try; nil: nothing does
	headers       []*cell
	bodies        []hit
	duplicate     *cell
	touched       []*cell
	try           int // its number, where the try under way may be a later one; 0: it is this
}

// later is what a body keeps of d: it may come to be read, and to be changed, when
// another try is under way.
func (d *due) later(x *exchange.Exchange) *due {
	return &due{touched: d.touched, try: len(x.Event.Tries)}
}

func (d *due) none() bool {
	return len(d.before)+len(d.after)+len(d.headers)+len(d.bodies) == 0 && d.abort == nil && d.duplicate == nil
}

func (d *due) add(c *cell, h uint64) {
	switch c.Kind {
	case Latency:
		if c.Side != ResponseSide {
			d.before = append(d.before, hit{c, h})
		}
		if c.Side == ResponseSide || c.Side == BothSides {
			d.after = append(d.after, hit{c, h})
		}
	case Header:
		d.headers = append(d.headers, c)
	case Truncate, Corrupt, Body, Drip:
		d.bodies = append(d.bodies, hit{c, h})
	case Duplicate:
		d.duplicate = c
	default:
		if d.abort == nil {
			d.abort = c
		}
	}
}

func (i *injector) serve(x *exchange.Exchange, cells []*cell) error {
	at := i.table.since(clock())
	var d due
	for n, c := range cells {
		if c.left(at) <= 0 || !c.on(at) || !c.aims(x, i.site) {
			continue
		}
		if !counted(cells[:n], c, x, i.site, at) {
			c.counts.attempts.Add(1)
		}
		// A try has one end: what could only come second is not drawn for First.
		if h, ok := c.hits(x, at); ok && !(c.ends() && d.abort != nil) && c.take() {
			d.add(c, h)
		}
	}
	if d.none() {
		return i.next.Serve(x)
	}
	return i.inject(x, &d)
}

// counted reports whether an earlier fault of the same run counted this try.
func counted(before []*cell, c *cell, x *exchange.Exchange, s Site, at int64) bool {
	for _, b := range before {
		if b.counts == c.counts && b.left(at) > 0 && b.on(at) && b.aims(x, s) {
			return true
		}
	}
	return false
}

// inject does to x what is due. Whoever was asleep may have outlived the lease of
// what comes next, so each part asks anew.
func (i *injector) inject(x *exchange.Exchange, d *due) error {
	if err := i.delay(x, d, d.before); err != nil {
		return err
	}
	if c := d.abort; c != nil && c.Phase != AfterUpstream && i.alive(c) {
		return i.end(x, d, c)
	}
	restore := i.changeRequest(x, d)
	mark := x.Mark()
	err := i.ask(x, d, mark)
	restore()
	if err != nil {
		return err
	}
	if c := d.abort; c != nil && c.Phase == AfterUpstream && i.alive(c) {
		x.EndTo(mark, retrylog.UpstreamFailure)
		return i.end(x, d, c)
	}
	if err := i.delay(x, d, d.after); err != nil {
		x.EndTo(mark, exchange.Classify(err, 0))
		return err
	}
	i.changeAnswer(x, d)
	return nil
}

// ask sends x on, twice where it is to be doubled.
func (i *injector) ask(x *exchange.Exchange, d *due, mark int) error {
	c := d.duplicate
	if c == nil || !i.alive(c) {
		return i.next.Serve(x)
	}
	if !x.Request.Body.Empty() && !x.Request.Body.Replayable() {
		i.table.missed.Add(1)
		return i.next.Serve(x)
	}
	i.touch(x, d, c)
	err := i.next.Serve(x)
	if x.Cause() != nil || x.Request.Body.Rewind() != nil {
		return err
	}
	x.EndTo(mark, exchange.Classify(err, x.Response.Judged()))
	return i.next.Serve(x)
}

func (i *injector) alive(c *cell) bool { return c.left(i.table.since(clock())) > 0 }

// delay sleeps for each of list in turn, which is their sum, and each part ends
// early when its own fault is disarmed or its lease runs out.
func (i *injector) delay(x *exchange.Exchange, d *due, list []hit) (err error) {
	if len(list) == 0 {
		return nil
	}
	if !i.table.enter() {
		i.table.missed.Add(int64(len(list)))
		return nil
	}
	defer i.table.leave()
	began := clock()
	var planned, late time.Duration
	cut := false
	for _, c := range list {
		if !i.alive(c.cell) {
			continue // disarmed while an earlier one was slept for
		}
		i.touch(x, d, c.cell)
		wait := c.latency(c.hash)
		planned += wait
		made := madeUp(x, wait)
		late += made
		var whole bool
		whole, err = i.sleep(x, c.cell, wait-made)
		cut = cut || !whole
		if err != nil {
			break
		}
	}
	if try := x.Try(); try != nil {
		try.PlannedUS += planned.Microseconds()
		try.ActualUS += (late + clock().Sub(began)).Microseconds()
		try.CutShort = try.CutShort || cut
	}
	return err
}

// madeUp is how much of a latency has passed before it begins, since the gateway took
// up late what it is for: that is not added to what was asked for. A tenth of it at
// most, so that a fault which is to outlast a timeout does so on the busiest machine.
func madeUp(x *exchange.Exchange, wait time.Duration) time.Duration {
	late := min(x.Late, wait/10)
	x.Late -= late
	return late
}

// sleep waits for d and reports whether it could do so to the end. The lease may
// be renewed meanwhile, so it is looked at again whenever it seems to run out.
func (i *injector) sleep(x *exchange.Exchange, c *cell, d time.Duration) (whole bool, err error) {
	end := clock().Add(d)
	for {
		now := clock()
		left := end.Sub(now)
		if left <= 0 {
			return true, nil
		}
		lease := c.left(i.table.since(now))
		if lease <= 0 {
			return false, nil
		}
		if err := x.WaitBy(i.table.alarm, min(left, lease), c.gone); err != nil {
			return false, i.asUpstream(x, err)
		}
	}
}

// asUpstream is the error the wire would give had the upstream been that slow.
func (i *injector) asUpstream(x *exchange.Exchange, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !i.site.Edge {
		return &exchange.UpstreamError{Kind: exchange.TryTimeout, Endpoint: x.Endpoint, Err: err}
	}
	if i.site.Edge {
		return err
	}
	return &exchange.UpstreamError{Kind: exchange.Canceled, Endpoint: x.Endpoint, Err: err}
}

// touch writes into the event that c has a hand in this try: the first fault and
// the first run are named. A run counts a try once, however many of its faults hit.
func (i *injector) touch(x *exchange.Exchange, d *due, c *cell) {
	if x.Event.Experiment == "" {
		x.Event.Experiment = c.Run
	}
	if n := cmp.Or(d.try, len(x.Event.Tries)); n > 0 && x.Event.Tries[n-1].Fault == "" {
		x.Event.Tries[n-1].Fault = c.ID
	}
	if !slices.ContainsFunc(d.touched, func(b *cell) bool { return b.counts == c.counts }) {
		c.counts.injected.Add(1)
	}
	d.touched = append(d.touched, c)
}
