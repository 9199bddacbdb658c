package gate

import (
	"context"
	"fmt"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/freeze"
)

// Slots keeps deploys that are under way.
type Slots interface {
	// BeginDeploy gives d a slot, or renews the one it holds, unless full says that none
	// is free beside those under way; then it is false. No two calls see the same slot free.
	BeginDeploy(ctx context.Context, d slo.Deploy, full func(live []slo.Deploy) bool, now time.Time) (slo.Deploy, bool, error)
	EndDeploy(ctx context.Context, e slo.DeployEnd, now time.Time) (ended int, err error)
}

// Slot is what an answer says where deploys are capped.
type Slot struct {
	// ID of the deploy that holds a slot now; "": it got none.
	ID string `json:"id,omitempty"`
	// Until is when the deploy counts as ended, unless it is heard of again; null: it got none.
	Until  *time.Time `json:"until"`
	AtMost int64      `json:"at_most"`
	Over   string     `json:"over"` // service, or policy: all services that it rules
	Policy string     `json:"policy"`
	// Holders are the others that hold slots, where none is free.
	Holders []slo.Deploy `json:"holders"`
}

// Codes of what a cap on deploys does not let out.
const (
	CodeSlotsTaken   = "deploy_slots_taken"
	CodeSlotsUnknown = "deploy_slots_unknown"
	CodeNotNamed     = "deploy_not_named"
)

// capped is what bounds a deploy that nothing else holds up.
type capped struct {
	bounds []freeze.Bound
	deploy slo.Deploy
	// free: it takes a slot and never waits for one, since it ends or eases an outage.
	free bool
	j    *judgement
}

// capped looks for caps on the deploy that d lets out.
func (j *judgement) capped(d Decision) capped {
	c := capped{j: j, deploy: slo.Deploy{Service: j.r.Service, Env: j.env, Ref: j.r.Ref, Kind: string(j.r.Kind), Key: slo.DeployKey(j.r.Ref, j.r.Once)}}
	if d.Decision != Allow || j.r.Standing {
		return c
	}
	c.bounds = j.f.Bounds(j.r.Service, j.env, d.State)
	if pass, ok := j.p.Pass(j.r.Kind); ok && len(c.bounds) > 0 {
		_, c.free = j.proven(pass)
	}
	return c
}

// enforced are the bounds of policies that do more than watch.
func (c capped) enforced() []freeze.Bound {
	var out []freeze.Bound
	for _, b := range c.bounds {
		if !b.DryRun {
			out = append(out, b)
		}
	}
	return out
}

// look has a cap answer by those known to be under way, without taking anything.
func (c capped) look(d Decision, live []slo.Deploy) Decision {
	switch {
	case len(c.bounds) == 0:
		return d
	case c.deploy.Key == "" && c.j.r.DryRun && !c.free && len(c.enforced()) > 0:
		return notNamed(d) // as it would be; a page that looks has nothing to name
	}
	if b, full := freeze.Full(c.enforced(), live, c.deploy); full && !c.free {
		return taken(d, b, live)
	}
	return c.tried(d, live)
}

// tried says what a policy that only watches would have done.
func (c capped) tried(d Decision, live []slo.Deploy) Decision {
	if b, full := freeze.Full(c.bounds, live, c.deploy); full && b.DryRun && !c.free {
		if d.Would == "" {
			d.Would = Hold
		}
		d.Reasons = append(d.Reasons, fmt.Sprintf("Policy %s only watches: without its dry_run this would wait for a slot, %s: %s.", b.Policy, b.Text(), freeze.HeldBy(b.Holders(live))))
	}
	return d
}

func notNamed(d Decision) Decision {
	return d.say(Hold, CodeNotNamed, append(d.Reasons, "Deploys are capped here, so this one has to say what it is: by ref, or by once where it has none. What has no name cannot be told from the others, nor be told to have ended.")...)
}

func taken(d Decision, b freeze.Bound, live []slo.Deploy) Decision {
	holders := b.Holders(live)
	d.Override = nil
	d.Slot = &Slot{AtMost: b.AtMost, Over: b.Over(), Policy: b.Policy, Holders: holders}
	return d.say(Hold, CodeSlotsTaken, append(d.Reasons, fmt.Sprintf("Policy %s lets out %s from state %s on, and no slot is free: %s.", b.Policy, b.Text(), b.From, freeze.HeldBy(holders)))...)
}

// begin takes a slot where d lets out a deploy that is capped. ok is false where d has
// become an answer that holds it up; slot is nil where no cap holds.
func (g *Gate) begin(ctx context.Context, d *Decision, c capped, id string, now time.Time) (slot *slo.Deploy, ok bool) {
	if len(c.bounds) == 0 {
		return nil, true
	}
	enforced := c.enforced()
	if c.deploy.Key == "" {
		if len(enforced) > 0 && !c.free {
			*d = notNamed(*d)
			return nil, false
		}
		c.deploy.Key = "decision/" + id
	}
	var live []slo.Deploy
	var full freeze.Bound
	found, err := slo.Deploy{}, error(nil)
	if g.cfg.Slots == nil {
		err = fmt.Errorf("nobody gives slots")
	} else {
		c.deploy.By, c.deploy.Decision, c.deploy.Until = auth.From(ctx).Name, id, now.Add(freeze.Lasts(c.bounds))
		found, ok, err = g.cfg.Slots.BeginDeploy(ctx, c.deploy, func(all []slo.Deploy) (none bool) {
			live = all
			full, none = freeze.Full(enforced, all, c.deploy)
			return none && !c.free
		}, now)
	}
	switch {
	case err != nil:
		g.cfg.Log.Warn("whether a slot is free is not known", "service", c.deploy.Service, "env", c.deploy.Env, "err", err)
		if len(enforced) == 0 {
			return nil, true // whoever only watches holds nobody up
		}
		if c.free {
			// What ends an outage does not wait for a database either.
			d.Reasons = append(d.Reasons, "It takes no slot: that could not be written down.")
			return nil, true
		}
		d.Override = nil
		*d = c.j.settle(d.say(Unclear, CodeSlotsUnknown, append(d.Reasons, fmt.Sprintf("Policy %s lets out %s, and whether a slot is free cannot be told at present.", enforced[0].Policy, enforced[0].Text()))...))
		return nil, false
	case !ok:
		*d = taken(*d, full, live)
		return nil, false
	}
	*d = c.tried(*d, live)
	return &found, true
}

// begun says in d which slot it rests on, or gives the slot back where it is no allow
// after all.
func (g *Gate) begun(ctx context.Context, d Decision, slot *slo.Deploy, c capped, now time.Time) Decision {
	if d.Decision != Allow {
		if slot.Decision != "" && slot.Begun.Equal(now) {
			if _, err := g.cfg.Slots.EndDeploy(ctx, slo.DeployEnd{Service: slot.Service, Env: slot.Env, Key: slot.Key, Outcome: slo.DeployRefused, By: "gate"}, now); err != nil {
				g.cfg.Log.Warn("a slot is not given back; it lapses", "service", slot.Service, "deploy", slot.ID, "err", err)
			}
		}
		return d
	}
	b := c.bounds[0]
	until := slot.Until
	d.Slot = &Slot{ID: slot.ID, Until: &until, AtMost: b.AtMost, Over: b.Over(), Policy: b.Policy, Holders: []slo.Deploy{}}
	if until.Before(d.ValidUntil) {
		d.ValidUntil = until
	}
	d.Reasons = append(d.Reasons, fmt.Sprintf("It holds a slot (policy %s, %s) until its end is told, or until %s.", b.Policy, b.Text(), slo.Clock(until)))
	return d
}
