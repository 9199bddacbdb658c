package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// Releases is what the page of the gate needs beside verdicts: the same lists as the
// API gives, of the services that whoever ctx is about may see, and the handlers of
// the API for what people do there.
type Releases interface {
	Protecting(ctx context.Context, since time.Time) ([]freeze.Shown, error)
	Frozen(ctx context.Context, since time.Time) ([]freeze.Span, error)
	Deploying(ctx context.Context, since time.Time) ([]slo.Deploy, []freeze.CapState, error)
	Decisions(ctx context.Context, q gate.Search) ([]gate.Logged, error)
	Overrides(ctx context.Context, since time.Time) ([]freeze.Override, error)
	// Quarters is how often freezes were passed, by the audit.
	Quarters(ctx context.Context) ([]freeze.OverrideQuarter, error)
	// Policies are those in force.
	Policies() []freeze.Policy

	Ask(w http.ResponseWriter, r *http.Request)
	Grant(w http.ResponseWriter, r *http.Request)
	Revoke(w http.ResponseWriter, r *http.Request)
	SavePolicy(w http.ResponseWriter, r *http.Request)
	// Shelf says where policies lie, and why they cannot be written there; "": they can.
	Shelf() (place, closed string)
}

// ProtectPart is what protects users now.
type ProtectPart struct {
	Sub, Trouble, Note string
	Rows               []MeasureRow
	Take               Take
}

// MeasureRow is one protective measure.
type MeasureRow struct {
	What, Policies, Service, Href, Env, Routes string
	State                                      Chip
	Since                                      Time
	Until, UntilNote, Why, Gateways            string
}

// lookBackMeasures is how far back measures that ended are shown.
const lookBackMeasures = 24 * time.Hour

func (s *Server) protecting(v view, part *ProtectPart) sheet {
	out := sheet{name: "measures", columns: []string{"id", "kind", "service", "env", "text", "state", "live", "dry_run", "from", "until_at", "lapses_at", "ended_at", "ended", "policies", "gateways", "reason"}}
	list, err := s.cfg.Releases.Protecting(v.r.Context(), v.now.Add(-lookBackMeasures))
	if part.Trouble = s.read(v, "What protects", err); err != nil {
		return out
	}
	routes := s.limitedRoutes(v, list)
	// In force first, then what only tries itself out or lapsed, then what is over.
	rank := func(m freeze.Shown) int {
		switch {
		case m.Live:
			return 0
		case m.EndedAt == nil:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b freeze.Shown) int { return rank(a) - rank(b) })
	live, idle, over := 0, 0, 0
	for _, m := range list {
		switch rank(m) {
		case 0:
			live++
		case 1:
			idle++
		default:
			over++
		}
		out.rows = append(out.rows, []field{txt(m.ID), txt(string(m.Kind)), txt(m.Service), txt(m.Env), txt(m.Text), txt(string(m.State)), yes(m.Live), yes(m.DryRun), instant(m.From), maybe(m.UntilAt), maybe(m.LapsesAt), maybe(m.EndedAt),
			txt(m.Ended), txt(strings.Join(m.Policies, " ")), txt(strings.Join(m.Gateways, " ")), txt(m.Reason)})
		if len(part.Rows) < 40 && (rank(m) < 2 || over <= 10) {
			row := v.measureRow(m)
			if m.Kind == freeze.Limit {
				row.Routes = routes[m.Service]
			}
			part.Rows = append(part.Rows, row)
		}
	}
	part.Sub = v.count(live, "measure in force", "measures in force")
	if idle > 0 {
		part.Sub = v.say("%s, %s", part.Sub, v.count(idle, "that is not obeyed", "that are not obeyed"))
	}
	if over > 0 {
		part.Sub = v.clauses(part.Sub, v.say("%s ended within a day", slo.Count(int64(over))))
	}
	unknown := 0
	for _, svc := range v.services {
		if st := svc.worst(); st.Level == slo.Unknown || st.Budget.NoData {
			unknown++
		}
	}
	if unknown > 0 {
		part.Note = v.say("Of %s nothing is known: there no measure begins, and one that holds goes on for 10 min at most.", v.count(unknown, "service", "services"))
	}
	part.Take = take(v.r, "measures")
	return out
}

func (v view) measureRow(m freeze.Shown) MeasureRow {
	row := MeasureRow{What: sentenceCase(v.tell(m.Text)), Policies: strings.Join(m.Policies, ", "), Service: m.Service, Href: serviceHref(m.Service), Env: m.Env, Since: v.short(m.From), Why: v.tell(m.Reason)}
	switch {
	case m.EndedAt != nil:
		row.State, row.Until, row.UntilNote = Chip{"fg-normal", "s-normal", "over"}, v.short(*m.EndedAt).Text, v.tell(m.Ended)
		return row
	case m.DryRun:
		row.State, row.UntilNote = Chip{"fg-unknown", "s-unknown", "dry run"}, v.say("nothing is done")
		return row
	case !m.Live:
		row.State, row.Until, row.UntilNote = Chip{"fg-unknown", "s-nodata", "lapsed"}, v.short(*m.LapsesAt).Text, v.say("nothing was heard of its service for 10 min")
		return row
	case m.Blind:
		row.State = Chip{"fg-unknown", "s-nodata", "in force, without data"}
		row.Until, row.UntilNote = v.short(*m.LapsesAt).Text, v.say("unless something is heard of its service")
	case m.UntilAt != nil:
		row.State = Chip{"fg-warn", "s-warn", "in force"}
		row.Until, row.UntilNote = v.say("%s at best", v.short(*m.UntilAt).Text), v.say("%s, if nothing else fails", v.in(*m.UntilAt))
	default:
		row.State = Chip{"fg-warn", "s-warn", "in force"}
		row.Until, row.UntilNote = v.say("the budget is better than %s", v.word(string(m.HoldsFrom))), v.say("no time can be told")
		if m.HoldsFrom == slo.Normal {
			row.Until, row.UntilNote = v.say("its policy is changed"), v.say("it holds in every state")
		}
	}
	row.Gateways = v.say("no gateway has told yet")
	if len(m.Gateways) > 0 {
		row.Gateways = v.say("obeyed by %s", strings.Join(m.Gateways, ", "))
	}
	if m.Kind == freeze.StopAll || m.Kind == freeze.RefuseAll || m.Kind == freeze.CapDeploys {
		row.Gateways = "" // control obeys these
	}
	return row
}

// limitedRoutes names the routes whose rate a measure changes, by service, as gateways
// have told what they serve.
func (s *Server) limitedRoutes(v view, list []freeze.Shown) map[string]string {
	if !slices.ContainsFunc(list, func(m freeze.Shown) bool { return m.Kind == freeze.Limit && m.EndedAt == nil }) {
		return nil
	}
	served, err := s.cfg.Traffic.Served(v.r.Context(), v.now.Add(-time.Hour))
	_ = s.read(v, "What gateways serve", err) // the measure is shown all the same
	found := map[string][]string{}
	for _, c := range served {
		_, limits := c.Policies()
		for _, l := range limits {
			if l.Policy == "limiter" && l.Route != "" && !slices.Contains(found[l.Service], l.Route) {
				found[l.Service] = append(found[l.Service], l.Route)
			}
		}
	}
	out := map[string]string{}
	for service, names := range found {
		slices.Sort(names)
		out[service] = v.say("routes %s", strings.Join(names, ", "))
	}
	return out
}

func yes(b bool) field {
	if b {
		return txt("true")
	}
	return txt("false")
}

func maybe(t *time.Time) field {
	if t == nil {
		return field{}
	}
	return instant(*t)
}

// PastPart is when releases were frozen.
type PastPart struct {
	Sub, Trouble string
	Bands        *Bands
	Rows         []PastRow
	More         string
	Ranges       []Link
	Take         Take
}

// PastRow is one freeze.
type PastRow struct {
	Service, Href, Env, By, Why, Lasted string
	From, To                            Time
	GoesOn                              bool
}

var pastRanges = [...]struct {
	key  string
	back time.Duration
}{{"7d", 7 * 24 * time.Hour}, {"30d", 30 * 24 * time.Hour}, {"90d", 90 * 24 * time.Hour}}

func (s *Server) pastFreezes(v view, part *PastPart) sheet {
	out := sheet{name: "freezes", columns: []string{"service", "env", "objective", "by", "from", "began_earlier", "to", "reason", "ended"}}
	back := pastRanges[1].back
	for _, c := range pastRanges {
		if c.key == v.r.URL.Query().Get("r") {
			back = c.back
		}
	}
	for _, c := range pastRanges {
		part.Ranges = append(part.Ranges, Link{Name: v.lasting(c.back), Href: with(v.r, "r", c.key), Here: c.back == back})
	}
	a := axis{from: v.now.Add(-back), to: v.now}
	list, err := s.cfg.Releases.Frozen(v.r.Context(), a.from)
	if part.Trouble = s.read(v, "Freezes", err); err != nil {
		return out
	}
	var lasted time.Duration
	for _, f := range list {
		to, by := v.now, f.Objective
		if f.To != nil {
			to = *f.To
		}
		lasted += to.Sub(f.From)
		out.rows = append(out.rows, []field{txt(f.Service), txt(f.Env), txt(f.Objective), txt(f.By), instant(f.From), yes(f.Earlier), maybe(f.To), txt(f.Reason), txt(f.Ended)})
		if f.By != "" {
			by = v.say("by hand, %s", f.By)
		}
		row := PastRow{Service: f.Service, Href: serviceHref(f.Service), Env: f.Env, By: by, Why: v.tell(f.Reason), From: v.day(f.From), Lasted: v.lasting(to.Sub(f.From).Truncate(time.Second)), GoesOn: f.To == nil}
		if f.Earlier {
			row.From.Text = v.say("before %s", row.From.Text)
		}
		if f.To != nil {
			row.To = v.day(*f.To)
		}
		if len(part.Rows) < 50 {
			part.Rows = append(part.Rows, row)
		}
	}
	if n := len(list) - len(part.Rows); n > 0 {
		part.More = v.say("%s in the file.", v.count(n, "older one is", "older ones are"))
	}
	part.Sub = v.say("none in %s", v.lasting(back))
	if len(list) > 0 {
		part.Sub = v.say("%s, %s in all", v.count(len(list), "freeze", "freezes"), v.lasting(lasted.Truncate(time.Second)))
		part.Bands = v.freezeBands(a, list)
	}
	part.Take = take(v.r, "freezes")
	return out
}

// freezeBands draws a lane for each service that was frozen, the latest first.
func (v view) freezeBands(a axis, list []freeze.Span) *Bands {
	var lanes []string
	name := func(f freeze.Span) string { return f.Service + "\x00" + f.Env }
	for _, f := range list {
		if !slices.Contains(lanes, name(f)) && len(lanes) < mostLanes {
			lanes = append(lanes, name(f))
		}
	}
	out := &Bands{Label: v.say("Freezes of services over the last %s", v.lasting(a.to.Sub(a.from))), X: v.times(a), Height: laneHeight(len(lanes))}
	for i := range out.X { // days are too long to stand side by side on a phone
		out.X[i].Wide = out.X[i].Anchor == "middle"
	}
	each := 100 / float64(len(lanes))
	for i, lane := range lanes {
		service, env, _ := strings.Cut(lane, "\x00")
		top := each * float64(i)
		l := BandLane{Name: short(service, 24), Full: v.list(service, env), Y: pos(top + each/2)}
		for _, f := range list {
			if name(f) != lane {
				continue
			}
			class, what, to := "f-frozen", v.say("frozen by its budget"), v.now
			if f.By != "" {
				class, what = "f-c3", v.say("frozen by %s", f.By)
			}
			until := "now"
			if f.To != nil {
				to, until = *f.To, v.day(*f.To).Text
			}
			st := a.stretch(f.From, to)
			l.Spans = append(l.Spans, BandSpan{Class: class, X: st.X, W: st.W, Y: pos(top + each*0.17), H: pos(each * 0.66), Title: v.say("%s, %s to %s", what, v.day(f.From).Text, until)})
		}
		out.Lanes = append(out.Lanes, l)
	}
	return out
}
