package fault

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/exchange"
)

// Site is where a Layer stands: the route whose tries it sees.
type Site struct {
	Service, Route string
	// Exempt is for health, login and control routes: nothing is ever injected.
	Exempt bool
}

// start reads the clock once, for the base of a Table.
func start() time.Time { return time.Now() }

// Layer injects what t holds for the site into single tries. It stands innermost,
// below the timeout of the try, so that everything above reacts as if the
// upstream had done it.
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

// Serve lets x through, after what is due was done to it. Latencies of all faults
// that hit add up; the first error that hits answers, after them.
func (i *injector) Serve(x *exchange.Exchange) error {
	live := i.table.live.Load()
	if live == nil {
		return i.next.Serve(x)
	}
	cells := live.byService[i.site.Service]
	if len(cells) == 0 {
		return i.next.Serve(x)
	}
	return i.serve(x, cells)
}

func (i *injector) serve(x *exchange.Exchange, cells []*cell) error {
	at := i.table.since(time.Now())
	var few [4]*cell // more are rare, and may allocate
	due, abort := few[:0], (*cell)(nil)
	for n, c := range cells {
		if c.left(at) <= 0 || !c.aims(x, i.site) {
			continue
		}
		if !counted(cells[:n], c, x, i.site, at) {
			c.counts.attempts.Add(1)
		}
		if !c.hits(x) {
			continue
		}
		switch {
		case c.Kind == Latency:
			due = append(due, c)
		case abort == nil:
			abort = c
		}
	}
	if len(due) == 0 && abort == nil {
		return i.next.Serve(x)
	}
	touched, err := i.delay(x, due)
	if err != nil {
		return err
	}
	// Whoever was asleep may have outlived the error's lease.
	if abort != nil && abort.left(i.table.since(time.Now())) > 0 {
		touch(x, abort, touched)
		abort.answer(x)
		return nil
	}
	return i.next.Serve(x)
}

// aims reports whether the fault's target holds x.
func (c *cell) aims(x *exchange.Exchange, s Site) bool {
	t := &c.Target
	return (len(t.Routes) == 0 || slices.Contains(t.Routes, s.Route)) &&
		(t.Endpoint == "" || t.Endpoint == x.Endpoint) &&
		(len(t.Callers) == 0 || slices.Contains(t.Callers, x.Event.Caller))
}

// counted reports whether an earlier fault of the same run counted this try.
func counted(before []*cell, c *cell, x *exchange.Exchange, s Site, at int64) bool {
	for _, b := range before {
		if b.counts == c.counts && b.left(at) > 0 && b.aims(x, s) {
			return true
		}
	}
	return false
}

func (c *cell) hits(x *exchange.Exchange) bool {
	if c.Key == KeyRequest {
		return Hit(c.Seed, x.Event.RequestID, c.PPM)
	}
	return hitTry(c.Seed, x.Event.RequestID, max(len(x.Event.Tries), 1), c.PPM)
}

// delay sleeps for each of due in turn, which is their sum, and each part ends
// early when its own fault is disarmed or its lease runs out. It returns those
// that had an effect, in the memory of due.
func (i *injector) delay(x *exchange.Exchange, due []*cell) (touched []*cell, err error) {
	if len(due) == 0 {
		return nil, nil
	}
	// Every sleeper holds a request's memory: beyond the cap a fault is not
	// injected, rather than the gateway brought down by its own drill.
	if i.table.sleeps.Add(1) > i.table.most.Load() {
		i.table.sleeps.Add(-1)
		i.table.missed.Add(int64(len(due)))
		return nil, nil
	}
	defer i.table.sleeps.Add(-1)
	began := time.Now()
	var planned time.Duration
	cut := false
	touched = due[:0]
	for _, c := range due {
		d := time.Duration(c.LatencyMS) * time.Millisecond
		if c.left(i.table.since(time.Now())) <= 0 {
			continue // disarmed while an earlier one was slept for
		}
		touch(x, c, touched)
		touched = append(touched, c)
		planned += d
		var whole bool
		whole, err = i.sleep(x, c, d)
		cut = cut || !whole
		if err != nil {
			break
		}
	}
	if try := x.Try(); try != nil {
		try.PlannedUS += planned.Microseconds()
		try.ActualUS += time.Since(began).Microseconds()
		try.CutShort = try.CutShort || cut
	}
	return touched, err
}

// sleep waits for d and reports whether it could do so to the end. The lease may
// be renewed meanwhile, so it is looked at again whenever it seems to run out.
func (i *injector) sleep(x *exchange.Exchange, c *cell, d time.Duration) (whole bool, err error) {
	end := time.Now().Add(d)
	for {
		now := time.Now()
		left := end.Sub(now)
		if left <= 0 {
			return true, nil
		}
		lease := c.left(i.table.since(now))
		if lease <= 0 {
			return false, nil
		}
		if err := x.Wait(min(left, lease), c.gone); err != nil {
			return false, i.asUpstream(x, err)
		}
	}
}

// asUpstream is the error the wire would give had the upstream been that slow.
func (i *injector) asUpstream(x *exchange.Exchange, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &exchange.UpstreamError{Kind: exchange.TryTimeout, Endpoint: x.Endpoint, Err: err}
	}
	return &exchange.UpstreamError{Kind: exchange.Canceled, Endpoint: x.Endpoint, Err: err}
}

// touch writes into the event that c has a hand in this try: the first fault and
// the first run are named. A run counts a try once, however many of its faults hit.
func touch(x *exchange.Exchange, c *cell, before []*cell) {
	if x.Event.Experiment == "" {
		x.Event.Experiment = c.Run
	}
	if try := x.Try(); try != nil && try.Fault == "" {
		try.Fault = c.ID
	}
	if !slices.ContainsFunc(before, func(b *cell) bool { return b.counts == c.counts }) {
		c.counts.injected.Add(1)
	}
}

// answer fills in what the upstream is said to have answered.
func (c *cell) answer(x *exchange.Exchange) {
	r := &x.Response
	r.Status = c.Status
	typed := false
	for _, f := range c.headers {
		typed = typed || strings.EqualFold(f.Name, "Content-Type")
		r.Head.Add(f.Name, f.Value)
	}
	if c.Body == "" || x.Request.Method == "HEAD" {
		r.Length = 0
		return
	}
	if !typed {
		kind := "text/plain; charset=utf-8"
		if strings.HasPrefix(c.Body, "{") || strings.HasPrefix(c.Body, "[") {
			kind = "application/json"
		}
		r.Head.Add("Content-Type", kind)
	}
	r.Length = int64(len(c.Body))
	r.Body = io.NopCloser(strings.NewReader(c.Body))
}
