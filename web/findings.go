package web

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/injector/finding"
	"breakwater/slo"
)

// Findings is what the pages need of what drills found.
type Findings interface {
	Findings(ctx context.Context, f finding.Filter) ([]finding.Finding, error) // what is due first on top
	// Finding is one with its story; an error that is injector.ErrNotFound is a 404.
	Finding(ctx context.Context, id string) (finding.Finding, []finding.Event, error)
	// Burndown says how all stood at each instant.
	Burndown(ctx context.Context, all []finding.Finding, at []time.Time) ([]finding.Standing, error)
}

// FindingRow is one finding in a list.
type FindingRow struct {
	Title, Href, Service, ServiceHref, Of string
	Severity, State                       Chip
	Owner                                 string
	Due, Opened                           Time
	Late, DueIn                           string
	Run                                   *Link // that looked at it last
	Reopened                              string
}

type findingsView struct {
	Sub, Trouble, ChartTrouble   string
	Tabs                         []Link
	Tab                          string
	Facts                        []Fact
	Chart                        *Chart
	Rows                         []FindingRow
	More                         Link
	Services, Severities, States []Link
	Filtered                     bool
	Clear                        string
	Any                          bool
	TakeFindings, TakeWeeks      Take
	Holding                      []string // services whose releases wait for overdue ones
	Held                         string   // the same in one line, where they are many
}

// severities, worst first.
var severities = [...]string{"critical", "high", "medium", "low"}

func severityOf(word string) Chip {
	switch word {
	case "critical":
		return Chip{"emergency", "s-emergency", word}
	case "high":
		return Chip{"emergency", "s-warn", word}
	case "medium":
		return Chip{"warn", "s-warn", word}
	}
	return Chip{"unknown", "e-log", cmp.Or(word, phrase("no severity"))}
}

func findingState(f finding.Finding) Chip {
	switch f.State {
	case finding.Open:
		return Chip{"fg-warn", "s-warn", "open"}
	case finding.Claimed:
		return Chip{"fg-unknown", "b-half", "said to be mended"}
	case finding.Verifying:
		return Chip{"fg-chaos", "s-chaos", "being looked at again"}
	case finding.Verified:
		return Chip{"fg-normal", "s-normal", "verified"}
	case finding.Reopened:
		return Chip{"fg-emergency", "s-emergency", "came back"}
	case finding.Accepted:
		return Chip{"fg-unknown", "s-unknown", "risk accepted"}
	}
	return Chip{"fg-unknown", "s-unknown", spaced(string(f.State))}
}

func findingHref(id string) string { return "/findings/" + url.PathEscape(id) }

func (v view) findingRow(f finding.Finding) FindingRow {
	row := FindingRow{Title: sentenceCase(v.tell(f.Title)), Href: findingHref(f.ID), Service: f.Service, ServiceHref: serviceHref(f.Service), Of: f.Scenario + "/" + f.Assertion,
		Severity: severityOf(f.Severity), State: findingState(f), Owner: f.Owner, Due: v.date(f.DueAt), Opened: v.date(f.OpenedAt), DueIn: v.in(f.DueAt)}
	if f.State == finding.Accepted {
		row.Due, row.DueIn = v.date(f.RiskUntil), v.say("answered for until then")
	}
	if f.State == finding.Verified {
		row.Due, row.DueIn = v.date(f.ClosedAt), "closed"
	}
	if f.Overdue(v.now) {
		since := f.DueAt
		if f.State == finding.Accepted {
			since = f.RiskUntil
		}
		row.Late, row.DueIn = "overdue", v.say("by %s", v.lasting(v.now.Sub(since)))
	}
	if f.LastRun != "" {
		row.Run = &Link{Name: "found by", Href: runHref(f.LastRun)}
		if f.LastRun != f.Run {
			row.Run.Name = v.say("looked at by")
		}
		row.Run.Count = f.LastRun
	}
	if f.Reopened > 0 {
		row.Reopened = v.say("came back %s", v.count(f.Reopened, "time", "times"))
	}
	return row
}

// date is a day with its year where that is another one.
func (w when) date(t time.Time) Time {
	layout := "Mon 2 Jan"
	if t.In(w.zone).Year() != w.now.In(w.zone).Year() {
		layout = "2 Jan 2006"
	}
	return Time{w.iso(t), t.In(w.zone).Format(layout)}
}

const mostFindings = 50

// mostHolding is how many services that are held are told one by one.
const mostHolding = 3

func (s *Server) findings(w http.ResponseWriter, r *http.Request) {
	v := s.look(r)
	q := r.URL.Query()
	all, err := s.cfg.Findings.Findings(r.Context(), finding.Filter{Now: v.now})
	o := findingsView{Trouble: s.read(v, "Findings", err), Tab: q.Get("view")}
	all = slices.DeleteFunc(all, func(f finding.Finding) bool { return !s.cfg.Covers(r, f.Service) })
	if o.Tab != "overdue" && o.Tab != "all" {
		o.Tab = "open"
	}
	state := q.Get("state")
	o.Any = len(all) > 0
	names := map[string]bool{}
	var of, shown []finding.Finding // of the service and severity asked for; in the list
	for _, f := range all {
		names[f.Service] = true
		if want := q.Get("service"); want != "" && f.Service != want {
			continue
		}
		if want := q.Get("severity"); want != "" && f.Severity != want {
			continue
		}
		of = append(of, f)
		late := f.Overdue(v.now)
		switch {
		case late && f.Severe() && !slices.Contains(o.Holding, f.Service):
			o.Holding = append(o.Holding, f.Service)
		}
		if state != "" && string(f.State) != state || state == "" && o.Tab == "open" && f.State == finding.Verified || o.Tab == "overdue" && !late {
			continue
		}
		shown = append(shown, f)
	}
	if n := len(o.Holding); n > mostHolding {
		o.Held = v.and(append(slices.Clone(o.Holding[:mostHolding]), v.say("%s more services", slo.Count(int64(n-mostHolding))))...)
	}
	weeks := v.weeks()
	standing, err := s.cfg.Findings.Burndown(r.Context(), of, weeks)
	o.ChartTrouble = s.read(v, "The weeks", err)
	if s.exported(w, v, findingSheet(shown, v.now), weekSheet(standing)) {
		return
	}
	o.TakeFindings, o.TakeWeeks = take(r, "findings"), take(r, "weeks")
	if err == nil && len(of) > 0 {
		o.Chart = v.burnweeks(standing)
	}
	o.Facts = v.findingFacts(of)
	limit := mostFindings
	if q.Get("all") == "1" {
		limit = 2000
	}
	for _, f := range shown[:min(len(shown), limit)] {
		o.Rows = append(o.Rows, v.findingRow(f))
	}
	if n := len(shown); n > len(o.Rows) && limit == mostFindings {
		o.More = Link{Name: v.say("Show all %s", slo.Count(int64(n))), Href: with(r, "all", "1")}
	}
	v.findingFilters(&o, names, state)
	o.Sub = v.say("%s, what is due first on top.", v.count(len(shown), "finding", "findings"))
	s.show(w, v, http.StatusOK, "findings", Page{Title: "Findings", Topics: topicDrills, Crumbs: []Link{{Name: "Findings"}}}, o)
}

func (v view) findingFilters(o *findingsView, names map[string]bool, state string) {
	q := v.r.URL.Query()
	for _, t := range []string{"open", "overdue", "all"} {
		view := t
		if t == "open" {
			view = ""
		}
		o.Tabs = append(o.Tabs, Link{Name: strings.ToUpper(t[:1]) + t[1:], Href: with(v.r, "view", view), Here: t == o.Tab})
	}
	o.Services = v.serviceLinks(q.Get("service"), names)
	o.Severities = []Link{{Name: "Any severity", Here: q.Get("severity") == ""}}
	for _, x := range severities {
		o.Severities = append(o.Severities, Link{Name: x, Href: x, Here: q.Get("severity") == x})
	}
	o.States = []Link{{Name: "Any state", Here: state == ""}}
	for _, x := range finding.States() {
		o.States = append(o.States, Link{Name: findingState(finding.Finding{State: x}).Text, Href: string(x), Here: state == string(x)})
	}
	o.Filtered, o.Clear = q.Get("service")+q.Get("severity")+state != "", "/findings"
	if o.Tab != "open" {
		o.Clear += "?view=" + o.Tab
	}
}

func (v view) findingFacts(all []finding.Finding) []Fact {
	n := map[string]int{}
	for _, f := range all {
		switch {
		case f.State == finding.Verified:
			if v.now.Sub(f.ClosedAt) < 90*24*time.Hour {
				n["verified"]++
			}
			continue
		case f.State == finding.Claimed || f.State == finding.Verifying:
			n["claimed"]++
		}
		n["open"]++
		if f.Severe() {
			n["severe"]++
		}
		if f.Overdue(v.now) {
			n["late"]++
		}
	}
	fact := func(name string, count int, class, text string) Fact {
		f := Fact{Name: name, Value: slo.Count(int64(count)), Text: text}
		if count > 0 {
			f.Class = class
		}
		return f
	}
	return []Fact{
		fact(v.say("Open"), n["open"], "", v.say("%s high or critical.", v.count(n["severe"], "of them is", "of them are"))),
		fact(v.say("Overdue"), n["late"], "fg-emergency", v.say("High and critical ones keep releases of their service waiting.")),
		fact(v.say("Said to be mended"), n["claimed"], "", v.say("The next game day of the service has to show it.")),
		fact(v.say("Verified"), n["verified"], "", v.say("In the last 90\u202fd, each by a run in which it held.")),
	}
}

// weeks are the ends of the last 26 weeks, by the calendar of the page, and now.
func (v view) weeks() []time.Time {
	y, m, d := v.now.In(v.zone).Date()
	back := (int(v.now.In(v.zone).Weekday()) + 6) % 7
	var out []time.Time
	for i := 26; i >= 0; i-- {
		out = append(out, midnightOf(y, m, d-back-7*i, v.zone))
	}
	return append(out, v.now)
}

// burnweeks draws how many were open at the end of each week, a bar a week.
func (v view) burnweeks(all []finding.Standing) *Chart {
	top := 4.0
	for _, s := range all {
		top = max(top, float64(s.Open))
	}
	a := axis{from: all[0].At, to: all[len(all)-1].At}
	var ticks []float64
	a.min, a.max, ticks = nice(0, top)
	c := &Chart{ID: "weeks", Height: "h160", Columns: []string{v.say("Open"), v.say("High or critical"), v.say("Opened"), v.say("Closed")}, X: v.times(a), Label: v.say("Open findings at the end of each week")}
	for _, t := range ticks {
		if t == math.Trunc(t) {
			c.Y = append(c.Y, Tick{At: pos(a.y(t)), Text: strconv.Itoa(int(t))})
		}
	}
	wide := 100 / float64(len(all))
	opened, closed := 0, 0
	for i, s := range all {
		bar := func(class string, from, to int) {
			if to > from {
				c.Bars = append(c.Bars, Rect{class, pos((float64(i) + 0.18) * wide), pos(a.y(float64(to))), pos(0.64 * wide), pos(a.y(float64(from)) - a.y(float64(to)))})
			}
		}
		bar("f-emergency", 0, s.Severe)
		bar("f-c4", s.Severe, s.Open)
		opened, closed = opened+s.Opened, closed+s.Closed
		count := func(n int) Cell { return Cell{"", slo.Count(int64(n)), n == 0} }
		c.Rows = append(c.Rows, Row{Time: Time{v.iso(s.At), v.written(s.At.In(v.zone), "2 Jan 2006")}, Cells: []Cell{count(s.Open), count(s.Severe), count(s.Opened), count(s.Closed)}})
	}
	slices.Reverse(c.Rows)
	c.Legend = []Key{{Class: "f-c4", Text: "open"}, {Class: "f-emergency", Text: v.say("of them high or critical")}}
	last := all[len(all)-1]
	c.Summary = v.say("%s now; in 26 weeks %s, %s", v.count(last.Open, "is open", "are open"), v.count(opened, "was opened or came back", "were opened or came back"), v.count(closed, "was shown to be gone.", "were shown to be gone."))
	return c
}

func findingSheet(all []finding.Finding, now time.Time) sheet {
	s := sheet{name: "findings", columns: []string{"id", "service", "scenario", "assertion", "title", "severity", "owner", "state", "due_at", "overdue", "opened_at", "closed_at", "reopened", "expected", "seen", "run", "last_run", "evidence"}}
	for _, f := range all {
		s.rows = append(s.rows, []field{txt(f.ID), txt(f.Service), txt(f.Scenario), txt(f.Assertion), txt(f.Title), txt(f.Severity), txt(f.Owner), txt(string(f.State)), instant(f.DueAt), txt(strconv.FormatBool(f.Overdue(now))),
			instant(f.OpenedAt), instant(f.ClosedAt), num(int64(f.Reopened)), txt(f.Expected), txt(f.Seen), txt(f.Run), txt(f.LastRun), txt(f.Evidence())})
	}
	return s
}

func weekSheet(all []finding.Standing) sheet {
	s := sheet{name: "weeks", columns: []string{"until", "open", "severe", "opened", "closed"}}
	for _, x := range all {
		s.rows = append(s.rows, []field{instant(x.At), num(int64(x.Open)), num(int64(x.Severe)), num(int64(x.Opened)), num(int64(x.Closed))})
	}
	return s
}
