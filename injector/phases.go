package injector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"breakwater/injector/scenario"
)

// armWithin is how long gateways have to confirm a rule at 0 %.
const armWithin = 30 * time.Second

// lateEvents is how long a verdict waits for events that are on their way: they
// come later than counts, by a spool and a batch.
const lateEvents = 30 * time.Second

// drive is one run being driven at one instant.
type drive struct {
	*Engine
	run Run
	sc  scenario.Scenario
	now time.Time
	// trouble is what went wrong with it in ticks before this one.
	trouble trouble
}

// move makes the transition that t asks for.
func (d *drive) move(ctx context.Context, t Trigger, m Move) error {
	to, err := Step(d.run.State, t)
	if err != nil {
		return err
	}
	m.Run, m.Epoch, m.From, m.To, m.At = d.run.ID, d.run.Epoch, d.run.State, to, d.now
	if m.Actor == "" {
		m.Actor = "engine"
	}
	if err := d.cfg.Ledger.Move(ctx, m); err != nil {
		return err
	}
	d.planner.wake()
	return nil
}

func (d *drive) stop(ctx context.Context, s Stop) error {
	return d.move(ctx, Stopped, Move{Reason: string(s.Reason), Text: s.Text})
}

func (d *drive) unreadable(ctx context.Context, err error) error {
	m := Move{Reason: string(BadText), Verdict: Inconclusive, Why: err.Error(), Text: err.Error()}
	switch d.run.State {
	case Scheduled:
		m.Verdict = ""
		return d.move(ctx, Skip, m)
	case Arming:
		return d.move(ctx, Broken, m)
	case Aborting:
		return d.aborting(ctx)
	}
	m.Verdict = ""
	return d.move(ctx, Stopped, m)
}

// takeOver is the rule of the killed process: before injection another control
// may start the run over, once; after that nobody resumes it.
func (d *drive) takeOver(ctx context.Context) (done bool, err error) {
	switch d.run.State {
	case Arming, Baseline:
		if d.run.Starts >= 2 || d.now.Sub(d.run.DueAt) >= StartDeadline {
			return true, d.stop(ctx, Stop{ByEngine, "the control that drove the run is gone"})
		}
		if no, err := d.guards(ctx); err != nil || no.Reason != "" {
			if err != nil {
				return true, err
			}
			return true, d.stop(ctx, no)
		}
		return true, d.move(ctx, Rearm, Move{Text: "the control that armed it is gone: started over"})
	case Injecting, Recovering:
		return true, d.stop(ctx, Stop{ByEngine, "the control that drove the run is gone"})
	}
	return false, nil
}

// guards are asked again by whoever starts a run, however it came to be due. What
// cannot be read is no answer: the next tick asks again.
func (d *drive) guards(ctx context.Context) (Stop, error) {
	halt, err := d.cfg.Ledger.Halt(ctx)
	if err != nil {
		return Stop{}, fmt.Errorf("tell whether experiments are halted: %w", err)
	}
	if !halt.At.IsZero() {
		return Stop{ByHalt, "all experiments were halted by " + halt.Actor}, nil
	}
	return grant(d.cfg.Budgets, d.run.Service, d.run.CapPPM), nil
}

func (d *drive) scheduled(ctx context.Context) error {
	if late := d.now.Sub(d.run.DueAt); late >= StartDeadline {
		return d.move(ctx, Expire, Move{Reason: string(Missed), Text: fmt.Sprintf("due %d s ago", int64(late/time.Second))})
	}
	no, err := d.guards(ctx)
	if err != nil {
		return err
	}
	if no.Reason != "" {
		return d.move(ctx, Skip, Move{Reason: string(no.Reason), Text: no.Text})
	}
	active, err := d.cfg.Ledger.ActiveRuns(ctx)
	if err != nil {
		return err
	}
	for _, a := range active {
		if a.ID != d.run.ID && a.Service == d.run.Service && a.State.Active() {
			return d.move(ctx, Skip, Move{Reason: string(Overlap), Text: a.ID + " has not ended"})
		}
		if d.run.beside(a) {
			return d.move(ctx, Skip, Move{Reason: string(Overlap), Text: a.ID + " is of class C too, and has not ended"})
		}
	}
	if no, err = d.clocks(ctx); err != nil {
		return err
	}
	if no.Reason != "" {
		return d.apart(ctx, no)
	}
	facts, err := d.facts(ctx, d.sc, d.now, d.run.ID)
	if err != nil {
		return err
	}
	for _, w := range d.sc.Preflight(facts) {
		if err := d.note(ctx, "preflight", w.Code+": "+w.Text); err != nil {
			return err
		}
		if w.Refuse {
			return d.move(ctx, Skip, Move{Reason: w.Code, Text: w.Text})
		}
	}
	return d.move(ctx, Arm, Move{Text: "waiting for every gateway to confirm the rule at 0 %"})
}

// maxSkew is how far a gateway's clock may be from ours: its events could else not
// be told to be before or after.
const maxSkew = 2 * time.Second

// skewPatience is how long one control sees clocks apart before it believes it: word
// of a gateway that waited for a control to come up looks as if its clock were slow,
// until the next one, a few seconds later. What another control saw that has gone
// meanwhile is no reading: controls that come and go would make each word late.
const skewPatience = 30 * time.Second

// apart waits for clocks to agree, and gives up where they are apart for long.
func (d *drive) apart(ctx context.Context, no Stop) error {
	since, seen := d.skewed[d.run.ID]
	if !seen {
		d.skewed[d.run.ID] = d.now
		return nil
	}
	if d.now.Sub(since) < skewPatience {
		return nil
	}
	return d.move(ctx, Skip, Move{Reason: string(no.Reason), Text: no.Text})
}

// clocks finds a gateway whose clock is too far off.
func (d *drive) clocks(ctx context.Context) (Stop, error) {
	all, err := d.cfg.Ledger.Gateways(ctx)
	if err != nil {
		return Stop{}, fmt.Errorf("tell how clocks stand: %w", err)
	}
	for _, g := range all {
		if skew := time.Duration(g.SkewMS) * time.Millisecond; g.Live(d.now) && skew.Abs() > maxSkew {
			return Stop{BySkew, fmt.Sprintf("the clock of gateway %s is %v off", g.Name, skew.Abs())}, nil
		}
	}
	delete(d.skewed, d.run.ID)
	return Stop{}, nil
}

func (d *drive) note(ctx context.Context, kind, text string) error {
	return d.cfg.Ledger.Note(ctx, Event{At: d.now, Run: d.run.ID, Kind: kind, Text: text, Actor: "engine"})
}

func (d *drive) arming(ctx context.Context) error {
	all, err := d.cfg.Ledger.Gateways(ctx)
	if err != nil {
		return err
	}
	live := slices.DeleteFunc(all, func(g Gateway) bool { return !g.Live(d.now) })
	waiting := ""
	for _, g := range live {
		if g.Halted {
			return d.broken(ctx, ByHalt, "the kill switch of gateway "+g.Name+" is on")
		}
		ok, refused := armed(g, Faults(d.run, d.sc))
		if refused != "" {
			return d.broken(ctx, ByRefusal, "gateway "+g.Name+" refuses the rule: "+refused)
		}
		if !ok {
			waiting = g.Name
		}
	}
	switch overdue := d.now.Sub(d.run.StartedAt) >= armWithin; {
	case len(live) > 0 && waiting == "":
		return d.move(ctx, Armed, Move{Text: fmt.Sprintf("the rule at 0 %% is confirmed by each gateway, %d in all", len(live))})
	case overdue && len(live) == 0:
		return d.broken(ctx, NoGateway, "no gateway is there")
	case overdue:
		return d.broken(ctx, NoArming, "gateway "+waiting+" did not confirm the rule")
	}
	return nil
}

func (d *drive) broken(ctx context.Context, r Reason, why string) error {
	return d.move(ctx, Broken, Move{Reason: string(r), Verdict: Inconclusive, Why: string(r) + ": " + why, Text: why})
}

// lost finds a gateway that has gone, restarted, was halted or gave the rule
// back since it confirmed it.
func (d *drive) lost(gateways []Gateway) (Stop, bool) {
	// First: what a gateway refuses it has given back as well, and that it refuses
	// says why.
	for _, g := range gateways {
		if _, refused := armed(g, Faults(d.run, d.sc)); refused != "" && g.Live(d.now) {
			return Stop{ByRefusal, "gateway " + g.Name + " refuses the rule: " + refused}, true
		}
	}
	for _, r := range d.run.Receipts {
		i := slices.IndexFunc(gateways, func(g Gateway) bool { return g.Name == r.Gateway })
		switch {
		case i < 0 || !gateways[i].Live(d.now):
			return Stop{ByGateway, "gateway " + r.Gateway + " fell silent"}, true
		case gateways[i].Boot != r.Boot:
			return Stop{ByGateway, "gateway " + r.Gateway + " restarted"}, true
		case gateways[i].Halted:
			return Stop{ByHalt, "the kill switch of gateway " + r.Gateway + " is on"}, true
		case !r.RemovedAt.IsZero():
			return Stop{ByGateway, "gateway " + r.Gateway + " gave the rule back"}, true
		}
	}
	return Stop{}, false
}

func (d *drive) baseline(ctx context.Context) error {
	gateways, err := d.cfg.Ledger.Gateways(ctx)
	if err != nil {
		return err
	}
	if s, lost := d.lost(gateways); lost {
		return d.stop(ctx, s)
	}
	if d.now.Sub(d.run.BaselineAt) < d.run.BaselineFor {
		return nil
	}
	o, err := d.observe(ctx)
	if err != nil {
		return err
	}
	_, why, all := Judge(d.run, d.sc, o)
	unsteady := slices.ContainsFunc(all, func(a Assertion) bool { return a.Phase == "steady" && a.Result != Pass && !a.Optional })
	if unsteady || openBefore(d.sc, o) != "" {
		return d.move(ctx, Quit, Move{Reason: notSteady, Verdict: Inconclusive, Why: why, Assertions: all, Cohorts: o.Parts, Text: why})
	}
	return d.move(ctx, Inject, Move{Assertions: all, Text: fmt.Sprintf("injecting %s for %v",
		percent(float64(d.sc.Sample.PPM)/1_000_000), d.run.InjectFor)})
}

func (d *drive) injecting(ctx context.Context) error {
	gateways, err := d.cfg.Ledger.Gateways(ctx)
	if err != nil {
		return err
	}
	if s, lost := d.lost(gateways); lost {
		return d.stop(ctx, s)
	}
	v, err := d.view(ctx, gateways)
	if err != nil {
		return err
	}
	if s, hit := Guard(d.sc, v); hit {
		if err := d.note(ctx, "guard", s.Text); err != nil {
			return err
		}
		return d.stop(ctx, s)
	}
	if d.now.Sub(d.run.InjectAt) >= d.run.InjectFor {
		return d.move(ctx, Over, Move{Assertions: d.probedDuring(ctx), Text: "the duration is over, waiting for every gateway to give back the rule"})
	}
	return nil
}

// recovering waits for proof that the rules are gone, then for the hypothesis of
// afterwards to hold. Without proof a run is never called completed.
func (d *drive) recovering(ctx context.Context) error {
	removed, err := d.removed(ctx)
	if err != nil || !removed {
		return err
	}
	elapsed := d.now.Sub(d.run.RecoverAt)
	if elapsed < d.run.RecoverFor {
		return nil
	}
	o, err := d.observe(ctx)
	if err != nil {
		return err
	}
	verdict, why, all := Judge(d.run, d.sc, o)
	limit := d.run.RecoverFor
	for _, a := range d.sc.After {
		limit = max(limit, a.Within)
	}
	for _, a := range all {
		if a.Phase == "after" && a.Result != Pass && elapsed < limit || a.late && elapsed < limit+lateEvents {
			return nil
		}
	}
	return d.finish(ctx, verdict, why, all, o.Parts)
}

func (d *drive) aborting(ctx context.Context) error {
	removed, err := d.removed(ctx)
	if err != nil || !removed {
		return err
	}
	o, err := d.observe(ctx)
	if err != nil && !d.trouble.lasts(d.now) {
		return err
	}
	if err != nil {
		o.Error = err.Error() // the fault is gone and the run has to end: it shows nothing
	}
	verdict, why, all := Judge(d.run, d.sc, o)
	return d.finish(ctx, verdict, why, all, o.Parts)
}

func (d *drive) finish(ctx context.Context, verdict Verdict, why string, all []Assertion, parts []Part) error {
	m := Move{Verdict: verdict, Why: why, Assertions: all, Cohorts: parts, Text: string(verdict) + ": " + why}
	counts, err := d.counts(ctx)
	if err != nil && !d.trouble.lasts(d.now) {
		return err
	}
	if err == nil {
		m.Counts = &counts
	}
	if err := d.move(ctx, Gone, m); err != nil {
		return err
	}
	if m.Counts != nil {
		d.run.Attempts, d.run.Injected, d.run.Good, d.run.Bad = counts.Attempts, counts.Injected, counts.Good, counts.Bad
	}
	d.run.Why = why
	return d.followed(ctx, d.run, d.sc, verdict, d.now)
}
