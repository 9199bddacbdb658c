package injector

import (
	"context"
	"fmt"
	"slices"

	"breakwater/injector/scenario"
)

func (e *Engine) mayProbe(p scenario.Probe) bool {
	return e.cfg.Probe != nil && e.cfg.MayProbe != nil && e.cfg.MayProbe(p)
}

// probed is what an address answers at the end of a phase. A phase that is over is not
// asked of again: what was seen then stands with the run.
func (d *drive) probed(ctx context.Context, phase string, a scenario.Assertion) Seen {
	now := map[State]string{Baseline: "steady", Injecting: "during", Recovering: "after"}[d.run.State]
	if now == phase {
		return d.ask(ctx, *a.Probe)
	}
	i := slices.IndexFunc(d.run.Assertions, func(x Assertion) bool { return x.ID == a.ID && (x.Result == Pass || x.Result == Fail) })
	if i < 0 {
		return Seen{Missing: "nothing: it was not asked before the phase was over"}
	}
	x := d.run.Assertions[i]
	return Seen{Asked: x.Seen, Met: x.Result == Pass, From: x.From, Until: x.Until}
}

// ask makes one request. An address that does not answer is one that does not answer as
// it should; one that may not be asked shows nothing.
func (d *drive) ask(ctx context.Context, p scenario.Probe) Seen {
	host, _ := p.Host()
	if !d.mayProbe(p) {
		return Seen{Missing: "nothing: control may not ask " + host}
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	status, body, err := d.cfg.Probe(ctx, p)
	seen := Seen{From: d.now, Until: d.now}
	switch {
	case err != nil:
		seen.Asked = "no answer: " + err.Error()
	case p.Takes(status, body):
		seen.Asked, seen.Met = fmt.Sprintf("answered %d", status), true
	case onlyBody(p, status):
		seen.Asked = fmt.Sprintf("answered %d, and its body does not match", status)
	default:
		seen.Asked = fmt.Sprintf("answered %d", status)
	}
	return seen
}

// onlyBody reports whether the status alone would be taken.
func onlyBody(p scenario.Probe, status int) bool {
	p.Matches = ""
	return p.Takes(status, nil)
}

// probedDuring asks what has to hold while the fault is on, right before it goes: the
// results of the run with those in it, or nil where there is nothing to ask.
func (d *drive) probedDuring(ctx context.Context) []Assertion {
	out := slices.Clone(d.run.Assertions)
	asked := false
	for _, a := range d.sc.During {
		if a.Probe == nil {
			continue
		}
		o := Observations{Now: d.now, Seen: map[string]Seen{a.ID: d.ask(ctx, *a.Probe)}}
		x := assess(d.run, a, "during", o)
		if i := slices.IndexFunc(out, func(y Assertion) bool { return y.ID == a.ID }); i >= 0 {
			out[i] = x
		} else {
			out = append(out, x)
		}
		asked = true
	}
	if !asked {
		return nil
	}
	return out
}
