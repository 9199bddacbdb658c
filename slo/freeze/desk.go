package freeze

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
)

// Ledger keeps what a Desk takes.
type Ledger interface {
	AddOrder(ctx context.Context, o Order) error
	EndOrder(ctx context.Context, service, id, by string, at time.Time) (bool, error)
	AddOverride(ctx context.Context, o Override) error
	GrantOverride(ctx context.Context, id, by string, on *Snapshot, at time.Time) (bool, error)
	RevokeOverride(ctx context.Context, id, by, reason string, at time.Time) (bool, error)
	Overrides(ctx context.Context, service string, since time.Time, limit int) ([]Override, error)
	Audit(ctx context.Context, e auth.Entry) error
}

// Source knows the last evaluation.
type Source interface{ Statuses() []slo.Status }

// Desk serves freezes, overrides and attestations over HTTP. Who may call what is
// for the routes; the scope of services and who may not grant is settled here.
type Desk struct {
	source Source
	book   *Book
	ledger Ledger
	now    func() time.Time
}

// NewDesk returns a Desk; now is nil for the clock.
func NewDesk(source Source, book *Book, ledger Ledger, now func() time.Time) *Desk {
	if now == nil {
		now = time.Now
	}
	return &Desk{source, book, ledger, now}
}

// Freeze is a service that is frozen, or was asked about.
type Freeze struct {
	Service   string     `json:"service"`
	Env       string     `json:"env"`
	State     slo.Level  `json:"state"`
	Since     *time.Time `json:"since"`
	FrozenAt  *time.Time `json:"frozen_at"`
	ThawAt    *time.Time `json:"thaw_at"`
	Reason    string     `json:"reason"`
	Policy    string     `json:"policy"`
	Revision  string     `json:"policy_revision"`
	DryRun    bool       `json:"dry_run"`
	Passes    []Pass     `json:"passes"`
	Orders    []Order    `json:"orders"`
	Overrides []Override `json:"overrides"`
}

// List serves GET /api/v1/freezes?service=&all=: what is frozen, by budget or by
// hand, and the overrides of the last two days.
func (d *Desk) List(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	known, now := d.book.Known(), d.now()
	type key struct{ service, env string }
	byKey := map[key][]slo.Status{}
	for _, s := range d.source.Statuses() {
		byKey[key{s.Objective.Service, s.Env}] = append(byKey[key{s.Objective.Service, s.Env}], s)
	}
	for _, o := range known.Orders {
		if k := (key{o.Service, o.Env}); byKey[k] == nil && o.Live(now) && !slices.ContainsFunc(d.source.Statuses(), func(s slo.Status) bool { return s.Objective.Service == o.Service }) {
			byKey[k] = []slo.Status{{Level: slo.Unknown, Objective: slo.Objective{Service: o.Service}, Env: o.Env}}
		}
	}
	out := []Freeze{}
	for k, set := range byKey {
		if q.Get("service") != "" && k.service != q.Get("service") || !auth.From(r.Context()).Covers(k.service) {
			continue
		}
		s, _ := slo.Worst(set)
		p := For(known.Policies, k.service, k.env)
		f := Freeze{Service: k.service, Env: k.env, State: s.Level, Since: instant(s.Since), FrozenAt: instant(s.FrozenAt), ThawAt: instant(s.ThawAt), Reason: s.Reason,
			Policy: p.Name, Revision: p.Revision(), DryRun: p.DryRun, Passes: p.Passes, Orders: []Order{}, Overrides: []Override{}}
		for _, o := range known.Orders {
			if o.Service == k.service && (o.Env == "" || o.Env == k.env) && o.Live(now) {
				f.Orders = append(f.Orders, o)
			}
		}
		for _, o := range known.Overrides {
			if o.holds(k.service, k.env) {
				f.Overrides = append(f.Overrides, o)
			}
		}
		if s.Level == slo.Frozen || len(f.Orders)+len(f.Overrides) > 0 || q.Get("all") != "" || q.Get("service") != "" {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Freeze) int { return strings.Compare(a.Service+"\x00"+a.Env, b.Service+"\x00"+b.Env) })
	reply.JSON(w, http.StatusOK, map[string]any{"freezes": out})
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	u := t.UTC()
	return &u
}

// On serves POST /api/v1/freezes/{service}: freeze by hand.
func (d *Desk) On(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Env    string     `json:"env"`
		Reason string     `json:"reason"`
		Ticket string     `json:"ticket"`
		Until  *time.Time `json:"until"`
	}
	service, ok := d.open(w, r, &in)
	if !ok {
		return
	}
	now := d.instant()
	o := Order{ID: newID("f"), Service: service, Env: in.Env, Reason: in.Reason, Ticket: in.Ticket, By: auth.From(r.Context()).Name, At: now, Until: in.Until}
	if len(strings.TrimSpace(o.Reason)) < 3 || !plain(o.Reason, 1000) || !plain(o.Ticket, 200) || !plain(o.Env, 63) || o.Until != nil && !o.Until.After(now) {
		d.refused(w, r, o.Service, refuse("bad_freeze", "reason: must be said in up to 1000 bytes; until: must lie ahead"))
		return
	}
	if err := d.ledger.AddOrder(r.Context(), o); err != nil {
		reply.Away(w)
		return
	}
	d.refresh(r.Context())
	reply.JSON(w, http.StatusCreated, o)
}

// Off serves DELETE /api/v1/freezes/{service}?id=: takes freezes by hand back. A
// freeze by budget ends by itself, or is passed by an override.
func (d *Desk) Off(w http.ResponseWriter, r *http.Request) {
	service, who, now := r.PathValue("service"), auth.From(r.Context()), d.instant()
	if !who.Covers(service) {
		reply.OutOfScope(w)
		return
	}
	ended := []string{}
	for _, o := range d.book.Known().Orders {
		if o.Service != service || !o.Live(now) || r.URL.Query().Get("id") != "" && o.ID != r.URL.Query().Get("id") {
			continue
		}
		done, err := d.ledger.EndOrder(r.Context(), service, o.ID, who.Name, now)
		if err != nil {
			reply.Away(w)
			return
		}
		if done {
			ended = append(ended, o.ID)
		}
	}
	if len(ended) == 0 {
		detail := "no freeze by hand holds"
		if slices.ContainsFunc(d.source.Statuses(), func(s slo.Status) bool { return s.Objective.Service == service && s.Level == slo.Frozen }) {
			detail += "; that of the budget ends when enough of it is back, or is passed by an override"
		}
		reply.Problem(w, http.StatusConflict, "not_frozen_by_hand", detail)
		return
	}
	d.refresh(r.Context())
	reply.JSON(w, http.StatusOK, map[string]any{"ended": ended})
}

// Ask serves POST /api/v1/freezes/{service}/override.
func (d *Desk) Ask(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Env       string     `json:"env"`
		Ref       string     `json:"ref"`
		Reason    string     `json:"reason"`
		Ticket    string     `json:"ticket"`
		ExpiresAt *time.Time `json:"expires_at"` // null: in an hour
		MaxUses   int64      `json:"max_uses"`   // 0: once
	}
	service, ok := d.open(w, r, &in)
	if !ok {
		return
	}
	now := d.instant()
	o := Override{ID: newID("o"), Service: service, Env: in.Env, Ref: in.Ref, Reason: in.Reason, Ticket: in.Ticket, AskedBy: auth.From(r.Context()).Name, AskedAt: now,
		ExpiresAt: now.Add(time.Hour), MaxUses: max(in.MaxUses, 1)}
	if in.MaxUses < 0 {
		o.MaxUses = in.MaxUses
	}
	if in.ExpiresAt != nil {
		o.ExpiresAt = in.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	o.AskedOn = d.snapshot(o)
	if err := o.Check(now); err != nil {
		d.refused(w, r, o.Service, err)
		return
	}
	if err := d.ledger.AddOverride(r.Context(), o); err != nil {
		reply.Away(w)
		return
	}
	d.refresh(r.Context())
	reply.JSON(w, http.StatusCreated, o)
}

// snapshot is the budget that o is decided on; nil: none is known.
func (d *Desk) snapshot(o Override) *Snapshot {
	mine := slo.Only(d.source.Statuses(), func(s *slo.Status) bool { return o.holds(s.Objective.Service, s.Env) })
	if s, ok := slo.Worst(mine); ok {
		return SnapshotOf(s)
	}
	return nil
}

// Grant serves POST /api/v1/freezes/{service}/override/{id}/grant.
func (d *Desk) Grant(w http.ResponseWriter, r *http.Request) {
	o, ok := d.find(w, r)
	if !ok {
		return
	}
	who, now := auth.From(r.Context()).Name, d.instant()
	if err := o.Grantable(who, now); err != nil {
		d.refused(w, r, o.ID, err)
		return
	}
	done, err := d.ledger.GrantOverride(r.Context(), o.ID, who, d.snapshot(o), now)
	if err != nil {
		reply.Away(w)
		return
	}
	if !done {
		d.refused(w, r, o.ID, refuse("override_changed", "the override was granted, revoked or has expired meanwhile"))
		return
	}
	d.refresh(r.Context())
	d.show(w, r, o.ID)
}

// Revoke serves POST /api/v1/freezes/{service}/override/{id}/revoke. It needs no
// more than a login: to close a gate is the safe side.
func (d *Desk) Revoke(w http.ResponseWriter, r *http.Request) {
	o, ok := d.find(w, r)
	if !ok {
		return
	}
	done, err := d.ledger.RevokeOverride(r.Context(), o.ID, auth.From(r.Context()).Name, r.URL.Query().Get("reason"), d.instant())
	if err != nil {
		reply.Away(w)
		return
	}
	if !done {
		reply.Problem(w, http.StatusConflict, CodeRevoked, "the override is over already")
		return
	}
	d.refresh(r.Context())
	d.show(w, r, o.ID)
}

func (d *Desk) find(w http.ResponseWriter, r *http.Request) (Override, bool) {
	service := r.PathValue("service")
	if !auth.From(r.Context()).Covers(service) {
		reply.OutOfScope(w)
		return Override{}, false
	}
	all, err := d.ledger.Overrides(r.Context(), service, d.now().Add(-7*24*time.Hour), 1000)
	if err != nil {
		reply.Away(w)
		return Override{}, false
	}
	i := slices.IndexFunc(all, func(o Override) bool { return o.ID == r.PathValue("id") })
	if i < 0 {
		reply.Problem(w, http.StatusNotFound, "unknown_override", "no override of that id")
		return Override{}, false
	}
	return all[i], true
}

func (d *Desk) show(w http.ResponseWriter, r *http.Request, id string) {
	if o, ok := d.find(w, r); ok && o.ID == id {
		reply.JSON(w, http.StatusOK, o)
	}
}

// refused answers what the rules do not allow, and has it in the audit.
func (d *Desk) refused(w http.ResponseWriter, r *http.Request, object string, err error) {
	why, ok := errors.AsType[*Refusal](err)
	if !ok {
		reply.Away(w)
		return
	}
	_ = d.ledger.Audit(r.Context(), auth.Entry{Actor: auth.From(r.Context()).Name, Action: "override.denied", Object: object, Detail: why.Code + ": " + why.Detail})
	status := http.StatusConflict
	switch {
	case strings.HasPrefix(why.Code, "bad_"):
		status = http.StatusUnprocessableEntity
	case why.Code == CodeSelfApproval:
		status = http.StatusForbidden
	}
	reply.Problem(w, status, why.Code, why.Detail)
}

// open reads who is asked about and the body.
func (d *Desk) open(w http.ResponseWriter, r *http.Request, into any) (service string, ok bool) {
	service = r.PathValue("service")
	if !auth.From(r.Context()).Covers(service) {
		reply.OutOfScope(w)
		return "", false
	}
	return service, reply.Decode(w, r, into)
}

// refresh makes what was just written known here at once.
func (d *Desk) refresh(ctx context.Context) { _ = d.book.Tick(ctx, d.instant()) }

func (d *Desk) instant() time.Time { return d.now().UTC().Truncate(time.Microsecond) }

func newID(prefix string) string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return prefix + "-" + hex.EncodeToString(b)
}
