package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/slo"
)

// Promises is what the pages of objectives look back at.
type Promises interface {
	// Attribution puts every failure of [from, to) down to one cause.
	Attribution(ctx context.Context, o slo.Objective, env string, from, to time.Time) ([]slo.Portion, error)
	// Backtests replays objectives that differ in target and window alone under p, over
	// the same counts.
	Backtests(ctx context.Context, all []slo.Objective, p slo.Policy, env string, from, to time.Time) ([]slo.Backtest, error)
	Causes(ctx context.Context, service, env string, from, to time.Time) ([]slo.Cause, error)
	Transitions(ctx context.Context, service string, since time.Time, limit int) ([]slo.Transition, error)
	Revisions(ctx context.Context, id string, limit int) ([]slo.Objective, error)
}

func sloHref(st *slo.Status) string {
	href := "/slos/" + url.PathEscape(st.Objective.ID)
	if st.Env != "" {
		href += "?env=" + url.QueryEscape(st.Env)
	}
	return href
}

type slosView struct {
	Sub, Trouble string
	Rows         []SLORow
	Filter       string
	Clear        string
	Empty        bool
	Take         Take
	More         Link
}

// SLORow is one objective in the list of all.
type SLORow struct {
	Name, Href, Service, ServiceHref, Env string
	Target, Window                        string
	Chip                                  Chip
	Bar                                   Bar
	Left, LeftSmall, Burn, BurnClass      string
	Mute                                  bool
	Empty                                 string
}

// slos lists every objective, the worst first.
func (s *Server) slos(w http.ResponseWriter, r *http.Request) {
	v := s.look(r)
	find := strings.ToLower(strings.TrimSpace(r.URL.Query().Get("q")))
	page := slosView{Take: take(r, "slos"), Clear: "/slos"}
	all, shown := 0, sheet{name: "slos", columns: []string{"id", "service", "env", "target_ppb", "window_seconds", "level", "remaining_ppm", "allowed", "bad_events", "valid_events", "burn_1h_milli", "empty_at", "thaw_at"}}
	var list []*slo.Status
	for _, svc := range v.services {
		list = append(list, svc.Statuses...)
	}
	slices.SortStableFunc(list, worseFirst)
	for _, st := range list {
		all++
		o := st.Objective
		if find != "" && !strings.Contains(strings.ToLower(o.ID+" "+o.Service+" "+o.Title+" "+o.Owner), find) {
			continue
		}
		row := SLORow{Name: title(o), Href: sloHref(st), Service: o.Service, ServiceHref: serviceHref(o.Service), Env: st.Env, Target: slo.Target(o.TargetPPB), Window: v.lasting(o.Window),
			Chip: statusChip(st), Bar: v.budgetBar(st, "thin"), Burn: v.say("no data"), BurnClass: "mute", Empty: "–"}
		row.Left, row.LeftSmall, row.Mute = v.left(st)
		hour, ok := burn(st, time.Hour)
		if ok && !hour.NoData {
			row.Burn, row.BurnClass = slo.Rate(hour), ""
			if hour.RateMilli > 1000 {
				row.BurnClass = "fg-warn"
			}
		}
		switch {
		case !st.EmptyAt.IsZero():
			row.Empty = v.say("empty %s", v.in(st.EmptyAt))
		case !st.ThawAt.IsZero():
			row.Empty = v.say("thaws %s", v.in(st.ThawAt))
		}
		page.Rows = append(page.Rows, row)
		line := []field{txt(o.ID), txt(o.Service), txt(st.Env), num(o.TargetPPB), num(int64(o.Window / time.Second)), txt(string(st.Level))}
		if st.Budget.NoData {
			line = append(line, field{}, field{}, field{}, field{})
		} else {
			line = append(line, num(st.Budget.RemainingPPM), num(st.Budget.Allowed), num(st.Budget.Tally.Bad), num(st.Budget.Valid))
		}
		if ok && !hour.NoData {
			line = append(line, num(hour.RateMilli))
		} else {
			line = append(line, field{})
		}
		shown.rows = append(shown.rows, append(line, instant(st.EmptyAt), instant(st.ThawAt)))
	}
	if s.exported(w, v, shown) {
		return
	}
	page.Empty = all == 0
	page.Sub = v.say("%s, worst first.", v.count(all, "objective", "objectives"))
	if find != "" {
		page.Filter = v.say("%s of %s with “%s”", v.count(len(page.Rows), "objective", "objectives"), slo.Count(int64(all)), find)
	}
	if until := v.dataUntil(); until.Text != "" {
		page.Sub = v.text(page.Sub, v.say("Data until %s.", until.Text))
	}
	page.Rows, page.More = bounded(v, page.Rows, mostListed)
	s.show(w, v, http.StatusOK, "slos", Page{Title: "SLOs", Crumbs: []Link{{Name: "SLOs"}}}, page)
}

type sloView struct {
	Name, Sub, Service, ServiceHref string
	Chip                            Chip
	Banner                          *Notice
	Left, LeftText                  string
	LeftMute                        bool
	Bar                             Bar
	Facts                           []Fact
	Ranges                          []Link
	Burndown, Ratio                 *Chart
	ChartTrouble                    string
	Burns                           []BurnRow
	BurnNote                        string
	Bars                            *EventBars
	Spent                           []SpentRow
	SpentSub, SpentTrouble          string
	WhatIf                          *WhatIf
	Explain                         []slo.Line
	API, CLI, Document, Revision    string
	Groups                          []GroupRow
	Corrections                     []CorrectionRow
	Overlays                        []OverlayRow
	Take                            map[string]Take
}

// GroupRow is one part of a grouped objective.
type GroupRow struct {
	Name, Left, Bad, Valid string
	Bar                    Bar
}

// CorrectionRow is a span that was corrected, openly.
type CorrectionRow struct{ From, To, Mode, Reason, By string }

// OverlayRow is one line of what happened in the range: a deploy, a freeze, an experiment.
type OverlayRow struct {
	Time              Time
	Class, Icon, Kind string
	Text, Href        string
}

func (s *Server) slo(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	id, env := chi.URLParam(r, "id"), r.URL.Query().Get("env")
	var st *slo.Status
	found := false
	for _, svc := range v.services {
		for _, other := range svc.Statuses {
			if other.Objective.ID == id && (env == "" || other.Env == env) && !found {
				st, found = other, true
			}
		}
	}
	if !found {
		s.trouble(w, v, http.StatusNotFound, v.say("No objective %s", id), "No document in force names an objective of this id. The list of all is under SLOs.")
		return
	}
	o := st.Objective
	page := sloView{Name: title(o), Service: o.Service, ServiceHref: serviceHref(o.Service), Chip: statusChip(st), Bar: v.budgetBar(st, "tall"), Explain: st.Explain(), Document: o.Text,
		API: "GET /api/v1/slos/" + o.ID + "/budget", CLI: "breakwater slo show " + o.ID, Take: map[string]Take{}}
	for _, t := range []string{"burndown", "burn_rates", "who_spent_it", "overlays"} {
		page.Take[t] = take(r, t)
	}
	owner := ""
	if o.Owner != "" {
		owner = v.say("Owner %s.", o.Owner)
	}
	page.Sub = v.text(v.say("%s over %s.", slo.Target(o.TargetPPB), v.lasting(o.Window)), v.word(o.Promise()), owner)
	page.Revision = v.say("Revision %s since %s", slo.Count(o.Revision), v.day(o.Since).Text)
	page.Left, page.LeftText, page.LeftMute = v.leftSentence(st)
	if !st.Budget.NoData && st.Budget.Remaining > 0 {
		page.LeftText = v.text(page.LeftText, v.say("That is %s of full outage, of %s.", v.lasting(st.OutageLeft()), v.lasting(o.Outage())))
	}
	page.Banner = v.banner(st)
	page.Facts = append(v.facts(st), s.gateFact(r, v, st))
	page.Burns, page.BurnNote = v.burnRows(st)
	for _, g := range st.Groups {
		group := st
		group.Budget = g.Budget
		row := GroupRow{Name: g.Name, Bar: v.budgetBar(group, "thin"), Bad: slo.Count(g.Budget.Tally.Bad), Valid: slo.Count(g.Budget.Valid)}
		row.Left, _, _ = v.left(group)
		page.Groups = append(page.Groups, row)
	}
	for _, c := range st.Corrections {
		page.Corrections = append(page.Corrections, CorrectionRow{v.day(c.From).Text, v.day(c.To).Text, v.word(string(c.Mode)), c.Reason, c.Author})
	}
	sheets := s.lookBack(r, v, st, &page)
	if s.exported(w, v, sheets...) {
		return
	}
	s.whatIf(r, v, st, &page)
	s.show(w, v, http.StatusOK, "slo", Page{Title: title(o), Crumbs: []Link{{Name: "SLOs", Href: "/slos"}, {Name: o.ID}}}, page)
}
