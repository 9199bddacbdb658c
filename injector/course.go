package injector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"breakwater/injector/scenario"
)

// Strip is the course of a run for its page: every service it watches, in steps
// of five seconds.
type Strip struct {
	Service string
	Points  []Point
}

const step = 5 * time.Second

// Series is what gateways counted of a service over (since, until]; run "" is
// its whole traffic.
func (e *Desk) Series(ctx context.Context, service, run string, since, until time.Time) ([]Point, error) {
	return e.cfg.Ledger.Tallies(ctx, service, run, since, until)
}

// Course returns what the services of r saw from half a minute before its
// baseline to half a minute after its end. Attempts and Injected are those of
// the run's fault.
func (e *Desk) Course(ctx context.Context, r Run) ([]Strip, error) {
	if r.StartedAt.IsZero() {
		return nil, nil
	}
	now, err := e.cfg.Ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	until := now
	if !r.EndedAt.IsZero() {
		until = r.EndedAt.Add(30 * time.Second)
	}
	since := r.StartedAt.Add(-30 * time.Second)
	sc, err := e.parse(r)
	if err != nil {
		return nil, err
	}
	var out []Strip
	for _, service := range sc.Services() {
		whole, err := e.cfg.Ledger.Tallies(ctx, service, "", since, until)
		if err != nil {
			return nil, err
		}
		own, err := e.cfg.Ledger.Tallies(ctx, service, r.ID, since, until)
		if err != nil {
			return nil, err
		}
		for i := range whole {
			whole[i].Attempts, whole[i].Injected = 0, 0
		}
		for i := range own {
			own[i].Good, own[i].Bad, own[i].Degraded = 0, 0, 0
		}
		out = append(out, Strip{service, steps5(append(whole, own...), since, until)})
	}
	return out, nil
}

// steps5 adds points up on a fixed grid; a step without any stays zero.
func steps5(points []Point, since, until time.Time) []Point {
	from := since.Truncate(step)
	n := int(until.Sub(from)/step) + 1
	if n <= 0 || n > 24*3600/5 {
		return nil
	}
	out := make([]Point, n)
	for i := range out {
		out[i].At = from.Add(time.Duration(i) * step)
	}
	for _, p := range points {
		i := int(p.At.Sub(from) / step)
		if i < 0 || i >= n {
			continue
		}
		out[i].Good += p.Good
		out[i].Bad += p.Bad
		out[i].Attempts += p.Attempts
		out[i].Injected += p.Injected
		out[i].Degraded += p.Degraded
	}
	return out
}

// Evidence returns what the result of one assertion of a run rests on.
func (e *Desk) Evidence(ctx context.Context, id, assertion string) (Evidence, error) {
	r, err := e.Run(ctx, id)
	if err != nil {
		return Evidence{}, err
	}
	i := slices.IndexFunc(r.Assertions, func(a Assertion) bool { return a.ID == assertion })
	if i < 0 {
		return Evidence{}, fmt.Errorf("assertion %q of run %s: %w", assertion, id, ErrNotFound)
	}
	out := Evidence{Assertion: r.Assertions[i]}
	sc, err := e.parse(r)
	if err != nil {
		return out, err
	}
	from, until := out.Assertion.From, out.Assertion.Until
	service := r.Service
	for _, p := range Phases(sc) {
		for _, a := range p.List {
			if a.ID == assertion && a.Service != "" && a.Measure != scenario.Alert {
				service = a.Service
			}
		}
	}
	if !from.IsZero() {
		whole, err := e.cfg.Ledger.Tallies(ctx, service, "", from, until.Add(settle))
		if err != nil {
			return out, err
		}
		out.Points = whole
	}
	if out.Assertion.Phase == "during" {
		out.Exchanges, err = e.cfg.Ledger.HitRequests(ctx, id, maxTouched)
	}
	return out, err
}
