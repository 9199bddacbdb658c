package web

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/injector/gameday"
	"breakwater/slo"
	"breakwater/slo/freeze"
)

// Days is what the pages need of game days.
type Days interface {
	// Ahead is every schedule with what comes of it in [from, until).
	Ahead(ctx context.Context, from, until time.Time) ([]gameday.Ahead, error)
	// Decisions is what was decided about due instants of [from, until), newest first.
	Decisions(ctx context.Context, from, until time.Time) ([]injector.Occurrence, error)
	Held(ctx context.Context) ([]gameday.Held, error) // newest first
	// Marks are the deploys and incidents of all services that began in [from, until).
	Marks(ctx context.Context, from, until time.Time) ([]slo.Cause, error)
	Documents(ctx context.Context) ([]gameday.Document, error)
	// Story tells all of one, by its id or its name; an error that is
	// injector.ErrNotFound is a 404.
	Story(ctx context.Context, id string) (gameday.Story, error)
}

// Plan is one schedule with its coming runs.
type Plan struct {
	Title, Href, Words, Cron, Zone, Scenarios, Grant, Starts string
	Services                                                 []Link
	Off                                                      bool
	Next                                                     []Coming
	Last                                                     []Decision
	LastRun                                                  *RunRow
	Wait                                                     string // approvals of the next, "1 of 2 approvals"
	Start                                                    string // name, where it may be held now
}

// Coming is a future run in the three ways people ask for it.
type Coming struct {
	Local, UTC     Time
	In, Note, Skip string
}

// Decision is what was decided about one due instant.
type Decision struct {
	Time             Time
	Plan, Text, Link string
	Late             string
	Mark             Chip
	Skipped          bool
}

// Conflict is a due instant at which nothing will begin, and why.
type Conflict struct{ When, Title, Why, Then string }

// DayRow is a game day that is or was held.
type DayRow struct {
	Title, Href, Agreed, Note string
	Time                      Time
	Chip                      Chip
}

type gamedaysView struct {
	Sub, Said, Trouble, RunTrouble string
	Calendar                       Calendar
	Zone                           string
	Zones                          []Link
	Kind, At                       string // kept by the form that picks a zone
	Conflicts                      []Conflict
	Waiting                        []DayRow
	Plans                          []Plan
	ByHand                         []Plan
	Decisions                      []Decision
	MoreDecisions                  Link
	Runs                           []RunRow
	More                           bool
	Take                           map[string]Take
}

const (
	mostDecisions = 10
	// lately is how far back the list of what did not begin reaches.
	lately = 30 * 24 * time.Hour
)

func (s *Server) gamedays(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	// Which zone the calendar is in depends on the schedules, so they are asked for a
	// little more than it can show.
	const margin = 48 * time.Hour
	rough := calendarSpan(r, v.now, s.cfg.Zone)
	ahead, err1 := s.cfg.Days.Ahead(r.Context(), rough.from.Add(-margin), rough.until.Add(margin))
	v, o := v.zoned(ahead, s.cfg.Zone)
	soonest := func(a gameday.Ahead) int64 {
		if len(a.Next) == 0 {
			return math.MaxInt64
		}
		return a.Next[0].UTC.Unix()
	}
	slices.SortStableFunc(ahead, func(a, b gameday.Ahead) int { return cmp.Compare(soonest(a), soonest(b)) })
	span := calendarSpan(r, v.now, v.zone)
	back := span.from
	if since := v.now.Add(-lately); v.now.After(span.from) && since.Before(back) {
		back = since
	}
	decided, err2 := s.cfg.Days.Decisions(r.Context(), back, span.until)
	held, err3 := s.cfg.Days.Held(r.Context())
	docs, err4 := s.cfg.Days.Documents(r.Context())
	o.Trouble = s.read(v, "Game days", cmp.Or(err1, err2, err3, err4))
	o.RunTrouble = s.read(v, "Runs", v.runsErr)
	o.Said = map[string]string{"started": v.say("It is held now.")}[r.URL.Query().Get("said")]

	var frozen []freeze.Span
	if span.from.Before(v.now) {
		var err error
		frozen, err = s.cfg.Releases.Frozen(r.Context(), span.from)
		o.Trouble = cmp.Or(o.Trouble, s.read(v, "Freezes that are over", err))
	}

	d := daybook{view: v, ahead: ahead, decided: decided, held: held, frozen: frozen}
	all := d.happenings(span)
	if s.exported(w, v, d.sheets(all)...) {
		return
	}
	o.Take = map[string]Take{"calendar": take(r, "calendar"), "decisions": take(r, "decisions"), "schedules": take(r, "schedules"), "runs": take(r, "runs")}
	o.Calendar = v.calendar(span, all, d.bars(span))
	o.Conflicts, o.Waiting = d.conflicts(), d.waiting()
	for _, a := range ahead {
		o.Plans = append(o.Plans, d.plan(a, s.cfg.MayLift(r)))
	}
	for _, doc := range docs {
		if !slices.ContainsFunc(ahead, func(a gameday.Ahead) bool { return a.Schedule.ID == doc.Name }) {
			p := Plan{Title: cmp.Or(doc.Title, doc.Name)}
			if s.cfg.MayLift(r) {
				p.Start = doc.Name
			}
			o.ByHand = append(o.ByHand, p)
		}
	}
	d.missed(r, &o)
	for _, run := range v.runs {
		if run.GameDay == "" {
			continue // a single run stands on the page of runs
		}
		if len(o.Runs) == 20 {
			o.More = true
			break
		}
		o.Runs = append(o.Runs, v.runRow(run))
	}
	o.Sub = v.say("%s, %s running, %s. Times in %s.", v.count(len(o.Plans), "schedule", "schedules"), slo.Count(int64(len(v.active))), v.count(len(o.Conflicts), "conflict", "conflicts"), v.zone.String())
	s.show(w, v, http.StatusOK, "gamedays", Page{Title: "Game days", Crumbs: []Link{{Name: "Game days"}}}, o)
}

// zoned is v in the zone that the address asks for, else in that of most schedules.
func (v view) zoned(ahead []gameday.Ahead, page *time.Location) (view, gamedaysView) {
	n := map[string]int{}
	best := page.String()
	for _, a := range ahead {
		if a.Schedule.Enabled {
			n[a.Zone.String()]++
		}
	}
	names := []string{page.String(), "UTC"}
	for name, count := range n {
		names = append(names, name)
		if count > n[best] || count == n[best] && n[page.String()] == 0 && name < best {
			best = name
		}
	}
	v = v.inZone(best).inZone(v.r.URL.Query().Get("zone"))
	o := gamedaysView{Zone: v.zone.String(), Kind: v.r.URL.Query().Get("view"), At: v.r.URL.Query().Get("at")}
	names = append(names, o.Zone)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		o.Zones = append(o.Zones, Link{Name: name, Here: name == o.Zone})
	}
	return v, o
}

// inZone is v with times in the zone of this name, if there is one.
func (v view) inZone(name string) view {
	// "Local" is whatever the machine says: nobody's zone.
	if zone, err := time.LoadLocation(name); err == nil && name != "Local" && name != "" && len(name) < 64 {
		v.zone = zone
	}
	return v
}

// daybook is what is known of game days, together.
type daybook struct {
	view
	ahead   []gameday.Ahead
	decided []injector.Occurrence
	held    []gameday.Held
	frozen  []freeze.Span // that are over
}

// barred says why nothing will begin at a due instant, as far as that is known now;
// "" where nothing is known against it.
func (d daybook) barred(a gameday.Ahead, c gameday.Coming) string {
	for _, h := range d.held {
		if h.ID == c.ID && h.Stopped != "" {
			return d.say("called off")
		}
	}
	if c.Skipped != "" {
		return d.closedWords(c.Skipped)
	}
	for _, name := range a.Services {
		i := slices.IndexFunc(d.services, func(s service) bool { return s.Name == name })
		if i < 0 {
			continue
		}
		st := d.services[i].worst()
		switch {
		case st.Level != slo.Frozen:
		case st.ThawAt.IsZero():
			return d.say("%s is frozen, with no thaw in sight", name)
		case st.ThawAt.After(c.UTC):
			return d.say("%s is frozen until %s at best", name, d.day(st.ThawAt).Text)
		}
		if ppm := a.Day.LeftPPM; ppm > 0 && st.Budget.RemainingPPM <= ppm {
			return d.say("%s has %s of its budget left, and more than %s must be left", name, slo.Percent(st.Budget.RemainingPPM), slo.Percent(ppm))
		}
	}
	return ""
}

func (l lang) closedWords(reason string) string {
	if reason == string(injector.Blackout) {
		return l.say("the day lies in a blackout")
	}
	if reason == string(injector.OutsideHours) {
		return l.say("it lies outside the allowed hours")
	}
	return l.word(spaced(reason))
}

// planWords says when a schedule is due: by itself in English, here in other languages.
func (l lang) planWords(a gameday.Ahead) string {
	if words := l.cronWords(a.Schedule.Cron); l.words != nil && words != "" {
		return l.say("%s, %s", words, a.Zone.String())
	}
	if l.words != nil {
		return l.say("%s, %s", a.Schedule.Cron, a.Zone.String())
	}
	return a.Words
}

// plan is one schedule as a card.
func (d daybook) plan(a gameday.Ahead, mayStart bool) Plan {
	sc := a.Schedule
	p := Plan{Title: cmp.Or(sc.Title, sc.GameDay, sc.ID), Href: dayHref(sc.ID), Cron: sc.Cron, Zone: a.Zone.String(), Words: d.planWords(a), Off: !sc.Enabled}
	for _, name := range a.Services {
		p.Services = append(p.Services, Link{Name: name, Href: serviceHref(name)})
	}
	names := sc.Scenarios
	if len(names) == 0 && sc.Scenario != "" {
		names = []string{sc.Scenario}
	}
	p.Scenarios = strings.Join(names, ", ")
	p.Starts = sentenceCase(d.clauses(d.startWords(a.Day)...))
	p.Grant = d.say("each run waits for an approval")
	if sc.GrantPPM > 0 {
		p.Grant = d.say("approved by itself while a run spends at most %s of the budget", slo.Percent(sc.GrantPPM))
	}
	for i, c := range a.Next {
		if i > 0 && c.UTC.Sub(d.now) > 366*24*time.Hour {
			break // the next years of a yearly schedule tell nobody anything
		}
		p.Next = append(p.Next, d.comes(a, c))
	}
	if len(a.Next) > 0 && sc.Enabled {
		if mayStart {
			p.Start = sc.ID
		}
		for _, h := range d.held {
			if h.ID == a.Next[0].ID && h.Needs > 0 {
				p.Wait = d.agreedWords(h, d.now)
			}
		}
	}
	for _, occ := range sc.Last[:min(len(sc.Last), 3)] {
		p.Last = append(p.Last, d.decision(p.Title, occ))
	}
	for _, run := range d.runs {
		if run.ID == sc.LastRun {
			p.LastRun = new(d.runRow(run))
		}
	}
	return p
}

func (l lang) agreedWords(h gameday.Held, now time.Time) string {
	return l.say("%s of %s", slo.Count(int64(h.Agreed(now))), l.count(h.Needs, "approval", "approvals"))
}

// comes is one due instant in its own zone.
func (d daybook) comes(a gameday.Ahead, c gameday.Coming) Coming {
	local := c.UTC.In(a.Zone)
	layout := phrase("Mon 2 Jan 15:04")
	if local.Year() != d.now.In(a.Zone).Year() {
		layout = phrase("Mon 2 Jan 2006 15:04")
	}
	return Coming{Local: Time{d.iso(c.UTC), d.written(local, layout)}, UTC: Time{d.iso(c.UTC), c.UTC.UTC().Format("15:04Z")}, In: d.in(c.UTC), Note: c.Note, Skip: d.barred(a, c)}
}

// decision is what became of one due instant.
func (d daybook) decision(plan string, occ injector.Occurrence) Decision {
	x := Decision{Time: d.day(occ.ScheduledFor), Plan: plan, Skipped: occ.Skipped != "", Text: "started", Link: dayHref(injector.DayID(occ.Schedule, occ.ScheduledFor)), Mark: Chip{"fg-normal", "s-normal", "started"}}
	if !x.Skipped {
		return x
	}
	x.Link, x.Mark = "", Chip{"fg-unknown", "s-nodata", "skipped"}
	switch injector.Reason(occ.Skipped) {
	case injector.Missed:
		x.Mark = Chip{"fg-warn", "s-warn", "missed"}
	case injector.Overlap:
		x.Mark = Chip{"fg-unknown", "s-nodata", "overlap"}
	}
	x.Text = cmp.Or(d.tell(occ.Detail), d.word(spaced(occ.Skipped)))
	if late := occ.DecidedAt.Sub(occ.ScheduledFor); late >= time.Minute {
		x.Late = d.lasting(late.Truncate(time.Second))
	}
	return x
}

// missed lists what did not begin, newest first.
func (d daybook) missed(r *http.Request, o *gamedaysView) {
	all := r.URL.Query().Get("all") == "1"
	n := 0
	for _, occ := range d.decided {
		if occ.Skipped == "" {
			continue
		}
		n++
		if all && n <= 500 || n <= mostDecisions {
			o.Decisions = append(o.Decisions, d.decision(d.titleOf(occ.Schedule), occ))
		}
	}
	if n > len(o.Decisions) && !all {
		q := r.URL.Query()
		q.Del("fragment")
		q.Set("all", "1")
		o.MoreDecisions = Link{Name: d.say("Show all %s", slo.Count(int64(n))), Href: (&url.URL{Path: "/gamedays", RawQuery: q.Encode(), Fragment: "decisions"}).String()}
	}
}

func (d daybook) titleOf(schedule string) string {
	for _, a := range d.ahead {
		if a.Schedule.ID == schedule {
			return cmp.Or(a.Schedule.Title, schedule)
		}
	}
	return schedule
}
