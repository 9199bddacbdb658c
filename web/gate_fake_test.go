package web

import (
	"context"
	"net/http"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// desk is the real desk of freezes over what a house has in place of a database.
type desk struct{ h *house }

func (d desk) real() *freeze.Desk {
	b := freeze.NewBook(d, nil)
	b.Rule(d.Policies())
	_ = b.Tick(context.Background(), d.h.now)
	return freeze.NewDesk(d.h, b, nil, func() time.Time { return d.h.now })
}

// anna is who looks: what lists show is what she may see.
func anna(ctx context.Context) context.Context {
	return auth.With(ctx, auth.Principal{Name: "anna", Role: auth.Approver})
}

func (d desk) Policies() []freeze.Policy {
	if len(d.h.statuses) == 0 {
		return nil
	}
	p := freeze.Default()
	p.Name, p.Observed = "shop", true
	p.Acts = []freeze.Act{{From: slo.Emergency, Drills: freeze.RefuseDrills, Deploys: &freeze.Cap{AtMost: 1, Lasts: slo.DeployLasts}}, {From: slo.Frozen, Keep: freeze.KeepDefault, Limit: &freeze.LimitChange{Direction: freeze.Tighten, FactorPPM: 500_000}}}
	return []freeze.Policy{p}
}

func (d desk) Protecting(ctx context.Context, since time.Time) ([]freeze.Shown, error) {
	return d.real().Protecting(anna(ctx), d, "", since)
}

func (d desk) Deploying(ctx context.Context, since time.Time) ([]slo.Deploy, []freeze.CapState, error) {
	return d.real().Deploying(anna(ctx), d, "", since)
}

func (d desk) Deploys(context.Context, string, time.Time, int) ([]slo.Deploy, error) {
	if len(d.h.statuses) == 0 || d.h.broken != nil {
		return nil, d.h.broken
	}
	at := func(minutes int) time.Time { return d.h.now.Add(time.Duration(minutes) * time.Minute) }
	ended := at(-61)
	return []slo.Deploy{
		{ID: "dp-2", Service: "coupon", Env: "production", Ref: "9f2c41d", By: "ci-coupon", Decision: "d-a", Begun: at(-4), Until: at(26)},
		{ID: "dp-1", Service: "catalog", Env: "production", Ref: "c0ffee1", By: "ci-catalog", Begun: at(-70), Until: at(-40), Ended: &ended, Outcome: slo.DeploySucceeded},
	}, nil
}

func (d desk) Quarters(ctx context.Context) ([]freeze.OverrideQuarter, error) {
	return d.real().Quarters(anna(ctx), d)
}

func (d desk) OverrideMoves(_ context.Context, since, until time.Time) ([]freeze.OverrideMove, error) {
	if d.h.broken != nil || len(d.h.statuses) == 0 || since.After(d.h.now) || !until.After(d.h.now) {
		return nil, d.h.broken
	}
	return []freeze.OverrideMove{{Action: "override.ask", Actor: "ben", AskedBy: "ben", Service: "coupon"}, {Action: "override.grant", Actor: "anna", AskedBy: "ben", Service: "coupon"},
		{Action: "override.use", Actor: "gate", AskedBy: "ben", Service: "coupon"}, {Action: "override.use", Actor: "gate", AskedBy: "ben", Service: "coupon"}}, nil
}

func (d desk) Frozen(ctx context.Context, since time.Time) ([]freeze.Span, error) {
	return d.real().Frozen(anna(ctx), d, "", since)
}

func (d desk) Decisions(ctx context.Context, q gate.Search) ([]gate.Logged, error) {
	return gate.Log(anna(ctx), archive{d}, q)
}

func (d desk) Measures(context.Context, string, time.Time, int) ([]freeze.Measure, error) {
	if len(d.h.statuses) == 0 || d.h.broken != nil {
		return nil, d.h.broken
	}
	at := func(hours int) time.Time { return d.h.now.Add(time.Duration(hours) * time.Hour) }
	ended := at(-3)
	m := func(id string, kind freeze.MeasureKind, service string, state slo.Level, change func(*freeze.Measure)) freeze.Measure {
		x := freeze.Measure{ID: id, Kind: kind, Service: service, Env: "production", State: state, Policies: []string{"shop"}, Reason: service + " (production) is " + string(state) + ".", From: at(-22), SeenAt: d.h.now.Add(-2 * time.Second)}
		if change != nil {
			change(&x)
		}
		return x
	}
	return []freeze.Measure{
		m("m-1", freeze.Shed, "coupon", slo.Frozen, func(x *freeze.Measure) { x.Keep = freeze.KeepDefault }),
		m("m-2", freeze.Limit, "coupon", slo.Frozen, func(x *freeze.Measure) { x.Limit = d.Policies()[0].Acts[1].Limit }),
		m("m-3", freeze.RefuseAll, "search", slo.Emergency, nil),
		m("m-4", freeze.Shed, "order", slo.Frozen, func(x *freeze.Measure) { x.Keep, x.DryRun = freeze.KeepCritical, true }),
		m("m-5", freeze.Shed, "payment", slo.Frozen, func(x *freeze.Measure) { x.Keep, x.SeenAt = freeze.KeepDefault, at(-1) }),
		m("m-6", freeze.StopAll, "points", slo.Frozen, func(x *freeze.Measure) {
			x.EndedAt, x.Ended = &ended, "the state of points no longer calls for it"
		}),
	}, nil
}

func (d desk) MeasureTurns(context.Context, time.Time) ([]retrylog.Transition, error) {
	turn := func(gateway, to string) retrylog.Transition {
		return retrylog.Transition{At: d.h.now.Add(-22 * time.Hour), Gateway: gateway, Env: "production", Policy: "measure", Service: "coupon", From: "none", To: to}
	}
	return []retrylog.Transition{turn("gw-1", "shed"), turn("gw-2", "shed"), turn("gw-1", "limit_tighten")}, d.h.broken
}

func (d desk) Transitions(_ context.Context, _ string, since time.Time, _ int) ([]slo.Transition, error) {
	if len(d.h.statuses) == 0 || d.h.broken != nil {
		return nil, d.h.broken
	}
	move := func(service string, hours int, from, to slo.Level) slo.Transition {
		return slo.Transition{Service: service, Objective: service + "-availability", Env: "production", At: d.h.now.Add(time.Duration(hours) * time.Hour), From: from, To: to, Reason: "103\u202f% of the error budget is spent."}
	}
	return []slo.Transition{move("coupon", -22, slo.Emergency, slo.Frozen), move("points", -200, slo.Frozen, slo.Emergency), move("points", -231, slo.Emergency, slo.Frozen), move("coupon", -420, slo.Frozen, slo.Warn)}, nil
}

func (d desk) Overrides(context.Context, time.Time) ([]freeze.Override, error) {
	if len(d.h.statuses) == 0 || d.h.broken != nil {
		return nil, d.h.broken
	}
	at := d.h.now.Add(-30 * time.Minute)
	ask := func(id, by string, change func(*freeze.Override)) freeze.Override {
		o := freeze.Override{ID: id, Service: "coupon", Env: "production", Ref: "9f2c41d", Reason: "customers cannot redeem what they paid for", Ticket: "INC-207", AskedBy: by, AskedAt: at, ExpiresAt: d.h.now.Add(90 * time.Minute), MaxUses: 2,
			AskedOn: &freeze.Snapshot{Objective: "coupon-availability", Bad: 32_947, Base: 62_400_000, Allowed: 31_200}}
		if change != nil {
			change(&o)
		}
		return o
	}
	return []freeze.Override{ask("o-1", "ben", nil), ask("o-2", "web", nil), ask("o-3", "ben", func(o *freeze.Override) { o.GrantedBy, o.GrantedAt, o.Used = "anna", &at, 1 }),
		ask("o-4", "ben", func(o *freeze.Override) { o.GrantedBy, o.GrantedAt, o.RevokedBy, o.RevokedAt = "anna", &at, "eve", &at }),
		ask("o-5", "ben", func(o *freeze.Override) { o.ExpiresAt = d.h.now.Add(-time.Hour) })}, nil
}

// archive is what the gate answered.
type archive struct{ d desk }

func (a archive) Decisions(_ context.Context, q gate.Search) (out []gate.Record, _ error) {
	h := a.d.h
	if len(h.statuses) == 0 || h.broken != nil {
		return nil, h.broken
	}
	for i, x := range []gate.Request{{Service: "coupon", Env: "production", Kind: gate.Feature, Ref: "9f2c41d"}, {Service: "coupon", Env: "production", Kind: gate.Rollback, Ref: "1.41"}, {Service: "catalog", Env: "production", Kind: gate.Feature, Ref: "c0ffee1"}, {Service: "invoice-export", Kind: gate.Feature}} {
		if q.Service != "" && q.Service != x.Service {
			continue
		}
		at := h.now.Add(-time.Duration(7*i+2) * time.Minute)
		d := gate.Decide(x, h.statuses, freeze.Default(), h.now)
		d.DecisionID = "d-" + string(rune('a'+i))
		out = append(out, gate.Record{Request: x, Decision: d, At: at, By: []string{"ci-coupon", "github", "ci-catalog", ""}[i]})
	}
	return out, nil
}

// What a Book wants of a database.
func (d desk) Known(context.Context, time.Time) (freeze.Known, error) {
	if len(d.h.statuses) == 0 {
		return freeze.Known{}, nil
	}
	until := d.h.now.Add(-50 * time.Hour)
	return freeze.Known{Orders: []freeze.Order{{ID: "f-1", Service: "catalog", Env: "production", By: "ben", Reason: "sale day", At: d.h.now.Add(-74 * time.Hour), Until: &until}}}, nil
}
func (d desk) Callers(context.Context, time.Time) (map[string][]string, error) { return nil, nil }
func (d desk) SigningKey(context.Context, time.Time) (freeze.Key, error) {
	return freeze.NewKey(make([]byte, 32))
}
func (d desk) UseOverride(context.Context, string, string, string, time.Time) (bool, error) {
	return false, nil
}
func (d desk) CloseOverrides(context.Context, time.Time) error { return nil }
func (d desk) CloseDeploys(context.Context, time.Time) error   { return nil }

// Ask, Grant and Revoke note what they were asked, as the desk of the API would.
func (d desk) Ask(w http.ResponseWriter, r *http.Request) {
	d.h.bell(w, r, "override "+r.PathValue("service"))
}
func (d desk) Grant(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") == "o-5" {
		reply.Problem(w, http.StatusConflict, freeze.CodeExpired, "the override expired at 12:00")
		return
	}
	d.h.bell(w, r, "grant "+r.PathValue("service")+" "+r.PathValue("id"))
}
func (d desk) SavePolicy(w http.ResponseWriter, r *http.Request) {
	d.h.bell(w, r, "policy")
}
func (d desk) Shelf() (place, closed string) {
	if d.h.mayLift {
		return "/etc/breakwater", ""
	}
	return "", "Control was started without --config, so it reads no documents. Start it with a directory."
}
func (d desk) Revoke(w http.ResponseWriter, r *http.Request) {
	d.h.bell(w, r, "revoke "+r.PathValue("service")+" "+r.PathValue("id"))
}
