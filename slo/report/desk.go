package report

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
)

// Replays looks back: what was put down to what, what another promise would have
// done, what counting anew would change.
type Replays interface {
	Attribution(ctx context.Context, o slo.Objective, env string, from, to time.Time) ([]slo.Portion, error)
	Backtest(ctx context.Context, o slo.Objective, p slo.Policy, env string, from, to time.Time) (slo.Backtest, error)
	Recompute(ctx context.Context, o slo.Objective, env string, until time.Time, dryRun bool, actor string, now time.Time) (slo.Recomputation, error)
}

// Corrections keeps planned work.
type Corrections interface {
	Corrections(ctx context.Context, service string, limit int) ([]slo.Correction, error)
	AddCorrection(ctx context.Context, c slo.Correction) error
	RevokeCorrection(ctx context.Context, id, actor, reason string, at time.Time) (bool, error)
}

// Notes keeps what people and pipelines tell: deploys, incidents, and the
// revisions of promises.
type Notes interface {
	AddCause(ctx context.Context, c slo.Cause, at time.Time) error
	BeginDeploy(ctx context.Context, d slo.Deploy, full func(live []slo.Deploy) bool, now time.Time) (slo.Deploy, bool, error)
	EndDeploy(ctx context.Context, e slo.DeployEnd, now time.Time) (ended int, err error)
	Revisions(ctx context.Context, id string, limit int) ([]slo.Objective, error)
}

// Keeper is what a Desk stands on.
type Keeper interface {
	Replays
	Corrections
	Notes
}

// Desk answers questions that look back and takes what people tell of a promise.
// Who may ask what is settled by the routes; the scope of services is settled here.
type Desk struct {
	handler
	keeper Keeper
	policy slo.Policy
	now    func() time.Time
}

// NewDesk returns a Desk; now is nil for the clock.
func NewDesk(source Source, keeper Keeper, policy slo.Policy, now func() time.Time) *Desk {
	if now == nil {
		now = time.Now
	}
	return &Desk{handler{source: source}, keeper, policy, now}
}

// span reads ?from= and ?to=, by default what s weighs.
func span(w http.ResponseWriter, r *http.Request, s slo.Status) (from, to time.Time, ok bool) {
	from, to = s.From, s.DataUntil
	for name, at := range map[string]*time.Time{"from": &from, "to": &to} {
		if text := r.URL.Query().Get(name); text != "" {
			t, err := time.Parse(time.RFC3339, text)
			if err != nil {
				badParameter(w, name, "must be an RFC 3339 instant such as 2026-03-10T12:00:00Z")
				return from, to, false
			}
			*at = t.UTC()
		}
	}
	if !from.Before(to) {
		badParameter(w, "from, to", "must be in this order")
		return from, to, false
	}
	return from, to, true
}

func badParameter(w http.ResponseWriter, name, detail string) {
	reply.Problem(w, http.StatusBadRequest, "bad_parameter", name+": "+detail)
}

// failed answers an error of the keeper: a question that makes no sense for this
// promise is the asker's, all else is the ledger's.
func failed(w http.ResponseWriter, err error) {
	for _, mine := range []error{slo.ErrTerms, slo.ErrCorrection, slo.ErrTarget} {
		if errors.Is(err, mine) {
			reply.Problem(w, http.StatusUnprocessableEntity, "refused", err.Error())
			return
		}
	}
	reply.Problem(w, http.StatusServiceUnavailable, "database_away", "the ledger cannot be read or written at present")
}

// Portion is one cause's part on the wire.
type Portion struct {
	Kind  slo.CauseKind `json:"kind"`
	Ref   string        `json:"ref"`
	Title string        `json:"title"`
	Bad   int64         `json:"bad_events"`
	PPM   int64         `json:"share_ppm"`
	First *time.Time    `json:"first_at"`
	Last  *time.Time    `json:"last_at"`
}

func portions(list []slo.Portion) []Portion {
	out := make([]Portion, len(list))
	for i, p := range list {
		out[i] = Portion{Kind: p.Kind, Ref: p.Ref, Title: p.Title, Bad: p.Bad, PPM: p.PPM, First: instant(p.First), Last: instant(p.Last)}
	}
	return out
}

// Attribution serves GET /api/v1/slos/{id}/attribution?env=&from=&to=.
func (d *Desk) Attribution(w http.ResponseWriter, r *http.Request) {
	s, ok := d.find(w, r)
	if !ok {
		return
	}
	from, to, ok := span(w, r, s)
	if !ok {
		return
	}
	list, err := d.keeper.Attribution(r.Context(), s.Objective, s.Env, from, to)
	if err != nil {
		failed(w, err)
		return
	}
	var bad int64
	for _, p := range list {
		bad += p.Bad
	}
	reply.JSON(w, http.StatusOK, struct {
		ID     string    `json:"id"`
		Env    string    `json:"env"`
		From   time.Time `json:"from"`
		To     time.Time `json:"to"`
		Bad    int64     `json:"bad_events"`
		ByKind []Portion `json:"by_kind"`
		Causes []Portion `json:"causes"`
	}{s.Objective.ID, s.Env, from, to, bad, portions(slo.ByKind(list)), portions(list)})
}

// Backtest serves GET /api/v1/slos/{id}/backtest?env=&from=&to=&target=&window=
// and the policy's warn, emergency, thaw (percent) and hold, min_freeze (spans).
func (d *Desk) Backtest(w http.ResponseWriter, r *http.Request) {
	s, ok := d.find(w, r)
	if !ok {
		return
	}
	from, to, ok := span(w, r, s)
	if !ok {
		return
	}
	o, p, err := candidate(s.Objective, d.policy, r.URL.Query().Get)
	if err != nil {
		reply.Problem(w, http.StatusBadRequest, "bad_parameter", err.Error())
		return
	}
	b, err := d.keeper.Backtest(r.Context(), o, p, s.Env, from, to)
	if err != nil {
		failed(w, err)
		return
	}
	reply.JSON(w, http.StatusOK, TestOf(o, b))
}

// candidate is the objective and the policy that a backtest asks about.
func candidate(o slo.Objective, p slo.Policy, get func(string) string) (slo.Objective, slo.Policy, error) {
	if text := get("target"); text != "" {
		ppb, err := slo.ParseTarget(text)
		if err != nil {
			return o, p, fmt.Errorf("target: %w", err)
		}
		o.TargetPPB = ppb
	}
	if text := get("window"); text != "" {
		d, err := Span(text)
		if err != nil || d < time.Hour || d > 366*24*time.Hour || d%time.Minute != 0 {
			return o, p, fmt.Errorf("window: must be 1h to 366d in whole minutes, got %q", text)
		}
		o.Window = d
		if o.Terms != nil && o.Terms.Calendar != nil {
			terms := *o.Terms
			terms.Calendar, terms.Planned = nil, 0
			o.Terms = &terms
		}
	}
	for name, into := range map[string]*int64{"warn": &p.WarnPPM, "emergency": &p.EmergencyPPM, "thaw": &p.ThawPPM} {
		if text := get(name); text != "" {
			n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
			if err != nil || n < 1 || n > 100 {
				return o, p, fmt.Errorf("%s: must be 1 to 100 percent of the budget, got %q", name, text)
			}
			*into = n * 10_000
		}
	}
	p.WarnLeavePPM, p.EmergencyLeavePPM = min(p.WarnLeavePPM, p.WarnPPM), min(p.EmergencyLeavePPM, p.EmergencyPPM)
	for name, into := range map[string]*time.Duration{"hold": &p.Hold, "min_freeze": &p.MinFreeze} {
		if text := get(name); text != "" {
			d, err := Span(text)
			if err != nil || d < 0 {
				return o, p, fmt.Errorf("%s: must be a span such as 60m, got %q", name, text)
			}
			*into = d
		}
	}
	return o, p, nil
}

// Span reads "90m", "6h", "28d" and "4w".
func Span(text string) (time.Duration, error) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseInt(digits, 10, 32)
			return time.Duration(n) * unit, err
		}
	}
	return time.ParseDuration(text)
}

// Recompute serves POST /api/v1/slos/{id}/recompute?env=&dry_run=. Without
// dry_run=false nothing is changed.
func (d *Desk) Recompute(w http.ResponseWriter, r *http.Request) {
	s, ok := d.find(w, r)
	if !ok {
		return
	}
	dry := true
	switch text := r.URL.Query().Get("dry_run"); text {
	case "", "true", "1":
	case "false", "0":
		dry = false
	default:
		badParameter(w, "dry_run", fmt.Sprintf("must be true or false, got %q", text))
		return
	}
	out, err := d.keeper.Recompute(r.Context(), s.Objective, s.Env, s.DataUntil, dry, auth.From(r.Context()).Name, d.now().UTC())
	if err != nil {
		failed(w, err)
		return
	}
	reply.JSON(w, http.StatusOK, RecomputedOf(s, out))
}

// Correct serves GET, POST and DELETE of /api/v1/slos/{id}/corrections.
func (d *Desk) Correct(w http.ResponseWriter, r *http.Request) {
	s, ok := d.find(w, r)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodPost:
		d.addCorrection(w, r, s)
	case http.MethodDelete:
		d.revokeCorrection(w, r, s)
	default:
		list, err := d.keeper.Corrections(r.Context(), s.Objective.Service, 500)
		if err != nil {
			failed(w, err)
			return
		}
		list = slices.DeleteFunc(list, func(c slo.Correction) bool { return c.Objective != "" && c.Objective != s.Objective.ID })
		reply.JSON(w, http.StatusOK, struct {
			Corrections []Correction `json:"corrections"`
		}{corrections(list)})
	}
}

func (d *Desk) addCorrection(w http.ResponseWriter, r *http.Request, s slo.Status) {
	var in Correction
	if !reply.Decode(w, r, &in) {
		return
	}
	now := d.now().UTC()
	c := slo.Correction{ID: newID("c"), Service: s.Objective.Service, Objective: s.Objective.ID, Env: in.Env, From: in.From.UTC(), To: in.To.UTC(),
		Mode: in.Mode, Reason: strings.TrimSpace(in.Reason), Ticket: in.Ticket, Author: auth.From(r.Context()).Name, At: now}
	if in.WholeService {
		c.Objective = ""
	}
	if c.Mode == "" {
		c.Mode = s.Objective.DefaultMode()
	}
	if err := c.Check(now); err != nil {
		failed(w, err)
		return
	}
	if err := d.keeper.AddCorrection(r.Context(), c); err != nil {
		failed(w, err)
		return
	}
	w.WriteHeader(http.StatusCreated)
	reply.JSON(w, http.StatusOK, correction(c))
}

func (d *Desk) revokeCorrection(w http.ResponseWriter, r *http.Request, s slo.Status) {
	id := r.PathValue("correction")
	list, err := d.keeper.Corrections(r.Context(), s.Objective.Service, 10_000)
	if err != nil {
		failed(w, err)
		return
	}
	// One's own scope ends at the service: a name from elsewhere is unknown here.
	known := slices.ContainsFunc(list, func(c slo.Correction) bool {
		return c.ID == id && (c.Objective == "" || c.Objective == s.Objective.ID)
	})
	done := false
	if known {
		if done, err = d.keeper.RevokeCorrection(r.Context(), id, auth.From(r.Context()).Name, r.URL.Query().Get("reason"), d.now().UTC()); err != nil {
			failed(w, err)
			return
		}
	}
	if !done {
		reply.Problem(w, http.StatusNotFound, "unknown_correction", "no such correction is in force")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Revisions serves GET /api/v1/slos/{id}/revisions.
func (d *Desk) Revisions(w http.ResponseWriter, r *http.Request) {
	s, ok := d.find(w, r)
	if !ok {
		return
	}
	list, err := d.keeper.Revisions(r.Context(), s.Objective.ID, 500)
	if err != nil {
		failed(w, err)
		return
	}
	type revision struct {
		Revision      int64     `json:"revision"`
		At            time.Time `json:"at"`
		TargetPPB     int64     `json:"target_ppb"`
		WindowSeconds int64     `json:"window_seconds"`
		Promise       string    `json:"promise"`
		Document      string    `json:"document"`
	}
	out := []revision{}
	for _, o := range list {
		out = append(out, revision{o.Revision, o.Since, o.TargetPPB, int64(o.Window / time.Second), o.Promise(), o.Text})
	}
	reply.JSON(w, http.StatusOK, struct {
		Revisions []revision `json:"revisions"`
	}{out})
}
