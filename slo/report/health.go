package report

import (
	"context"
	"net/http"
	"slices"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
)

// HealthLedger counts what health scores are made of.
type HealthLedger interface {
	HealthRows(ctx context.Context, env, upstream string, from, to time.Time) ([]slo.HealthRow, error)
	HealthFacts(ctx context.Context, env, upstream string, services []string, from, to time.Time) (slo.HealthFacts, error)
}

// HealthDesk answers for health scores. Who may ask is settled by the routes; the
// scope of services is settled here.
type HealthDesk struct {
	Ledger HealthLedger
	// Documents tells the retry policies of the routes that ask an upstream, and what
	// the validator says of the documents; nil: none are known.
	Documents func(ctx context.Context, upstream string) (routes []slo.HealthRoute, config []string)
	Now       func() time.Time // nil: the clock
}

// Health is a score on the wire.
type Health struct {
	Upstream string       `json:"upstream"`
	Env      string       `json:"env"`
	State    slo.Scored   `json:"state"`
	ScorePPM *int64       `json:"score_ppm"` // null where there is none
	Healthy  bool         `json:"healthy"`   // not surely below 0.85
	Sure     bool         `json:"confident"` // at least 100 requests
	Alarm    bool         `json:"alarm"`
	Since    *time.Time   `json:"alarm_since"`
	Counts   HealthCounts `json:"counts"`
	Ratios   HealthRatios `json:"ratios"`
	Deducted HealthParts  `json:"deductions"`
	Reasons  []Reason     `json:"reasons"`
	Audit    []Advice     `json:"audit,omitempty"`
}

// HealthCounts are the integers of a score on the wire.
type HealthCounts struct {
	Requests  int64 `json:"requests"`
	Retried   int64 `json:"retried"`
	Retries   int64 `json:"retries_sent"`
	Recovered int64 `json:"recovered"`
	Failed    int64 `json:"failed_after_retry"`
}

// HealthRatios are the published ratios; extra_load is the true one.
type HealthRatios struct {
	Trigger       int64 `json:"trigger_rate_ppm"`
	Success       int64 `json:"success_ratio_ppm"`
	Amplification int64 `json:"amplification_ppm"`
	ExtraLoad     int64 `json:"extra_load_ppm"`
}

// HealthParts are what was taken off a million.
type HealthParts struct {
	Trigger int64 `json:"trigger_rate_ppm"`
	Useless int64 `json:"failed_retries_ppm"`
	Load    int64 `json:"extra_load_ppm"`
}

// Reason is the part of one status and reason on the wire.
type Reason struct {
	Status   int64        `json:"status_code"`
	Reason   string       `json:"decision_reason"`
	ScorePPM *int64       `json:"score_ppm"` // by the upstream's requests
	Counts   HealthCounts `json:"counts"`
	Ratios   HealthRatios `json:"ratios"`
	Deducted HealthParts  `json:"deductions"` // its part of the upstream's
}

// Advice is one piece of an audit on the wire.
type Advice struct {
	Code     string `json:"code"`
	Subject  string `json:"subject"`
	Now      string `json:"now,omitempty"`
	Should   string `json:"advice"`
	Why      string `json:"why"`
	ScorePPM *int64 `json:"score_would_be_ppm"` // null where that cannot be reckoned
}

// HealthOf renders a score.
func HealthOf(h slo.UpstreamHealth) Health {
	out := Health{Upstream: h.Upstream, Env: h.Env, State: h.Score.State, ScorePPM: scorePPM(h.Score), Healthy: !h.Score.Below(), Sure: !h.Score.LowConfidence,
		Alarm: h.Alarm, Since: instant(h.Since), Counts: HealthCounts(h.Counts), Ratios: ratios(h.Score),
		Deducted: HealthParts{h.Score.Trigger, h.Score.Useless, h.Score.Load}, Reasons: []Reason{}}
	for _, r := range h.Reasons {
		out.Reasons = append(out.Reasons, Reason{r.Status, r.Reason, scorePPM(r.Score), HealthCounts(r.Counts), ratios(r.Score), HealthParts{r.Trigger, r.Useless, r.Load}})
	}
	return out
}

func scorePPM(s slo.HealthScore) *int64 {
	if s.State != slo.HealthScored {
		return nil
	}
	return &s.PPM
}

func ratios(s slo.HealthScore) HealthRatios {
	return HealthRatios{s.TriggerPPM, s.SuccessPPM, s.SeedPPM, s.LoadPPM}
}

// Scores are what a HealthDesk answers.
type Scores struct {
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	AuditBelow int64     `json:"audit_below_ppm"`
	ClearAt    int64     `json:"clear_at_ppm"`
	Scores     []Health  `json:"health_scores"`
}

// looksBack is how far windows are walked for alarms.
const looksBack = 2 * time.Hour

// Read scores what the asker's scope covers: of an environment and an upstream or,
// where they are empty, of all. With audit those below the line carry advice.
func (d *HealthDesk) Read(ctx context.Context, who auth.Principal, env, upstream string, window time.Duration, audit bool) (Scores, error) {
	now := time.Now
	if d.Now != nil {
		now = d.Now
	}
	to := now().UTC().Truncate(time.Minute)
	from := to.Add(-window)
	out := Scores{From: from, To: to, AuditBelow: slo.HealthAuditPPM, ClearAt: slo.HealthClearPPM, Scores: []Health{}}
	// Windows begin at whole five minutes.
	back := from.Truncate(slo.HealthWindow)
	if b := to.Add(-looksBack).Truncate(slo.HealthWindow); b.Before(back) {
		back = b
	}
	rows, err := d.Ledger.HealthRows(ctx, env, upstream, back, to)
	if err != nil {
		return out, err
	}
	rows = slices.DeleteFunc(rows, func(r slo.HealthRow) bool { return !who.Covers(r.Service) })
	for _, h := range slo.Healths(rows, from.Truncate(slo.HealthWindow), to) {
		one := HealthOf(h)
		if audit && h.Score.Below() {
			if one.Audit, err = d.audit(ctx, who, h, from, to); err != nil {
				return out, err
			}
		}
		out.Scores = append(out.Scores, one)
	}
	return out, nil
}

func (d *HealthDesk) audit(ctx context.Context, who auth.Principal, h slo.UpstreamHealth, from, to time.Time) ([]Advice, error) {
	var services []string
	if len(who.Services) > 0 {
		services = who.Services
	}
	facts, err := d.Ledger.HealthFacts(ctx, h.Env, h.Upstream, services, from, to)
	if err != nil {
		return nil, err
	}
	if d.Documents != nil {
		facts.Routes, facts.Config = d.Documents(ctx, h.Upstream)
	}
	out := []Advice{}
	for _, a := range h.Audit(facts) {
		one := Advice{a.Code, a.Subject, a.Now, a.Should, a.Why, nil}
		if a.ScorePPM > 0 {
			one.ScorePPM = &a.ScorePPM
		}
		out = append(out, one)
	}
	return out, nil
}

// ServeHTTP serves GET /api/v1/health-scores?env=&upstream=&window=1h&audit=true.
func (d *HealthDesk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	window := time.Hour
	if text := q.Get("window"); text != "" {
		span, err := Span(text)
		if err != nil || span < slo.HealthWindow || span > 24*time.Hour || span%time.Minute != 0 {
			badParameter(w, "window", "must be 5m to 24h in whole minutes")
			return
		}
		window = span
	}
	audit := q.Get("audit")
	if audit != "" && audit != "true" && audit != "false" {
		badParameter(w, "audit", "must be true or false")
		return
	}
	out, err := d.Read(r.Context(), auth.From(r.Context()), q.Get("env"), q.Get("upstream"), window, audit == "true")
	if err != nil {
		failed(w, err)
		return
	}
	reply.JSON(w, http.StatusOK, out)
}

// Watch audits by itself: Tick reports each alarm when it begins, with advice.
type Watch struct {
	Desk *HealthDesk
	Told func(Health)
	on   map[string]bool
}

// Tick looks once. It belongs to one goroutine.
func (w *Watch) Tick(ctx context.Context) error {
	all := auth.Principal{Name: "system", Role: auth.Admin}
	scores, err := w.Desk.Read(ctx, all, "", "", 2*slo.HealthWindow, true)
	if err != nil {
		return err
	}
	now := map[string]bool{}
	for _, h := range scores.Scores {
		if !h.Alarm {
			continue
		}
		key := h.Env + "\x00" + h.Upstream
		now[key] = true
		if !w.on[key] {
			w.Told(h)
		}
	}
	w.on = now
	return nil
}

// Run ticks with every window until ctx ends.
func (w *Watch) Run(ctx context.Context, failed func(error)) error {
	t := time.NewTicker(slo.HealthWindow)
	defer t.Stop()
	for {
		if err := w.Tick(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
